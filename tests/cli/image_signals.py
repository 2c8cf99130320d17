"""What a signal in the middle of `adaptdl image build` leaves behind: nothing; and what nohup does.

Usage: image_signals.py ADAPTDL
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60
BIG = 1 << 36  # bytes, of a file with nothing on its disk: packed for minutes
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupted(adaptdl, number, ignored=()):
    def set_signals():  # a shell's background, or nohup, may have had us ignore some
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)

    with tempfile.TemporaryDirectory(prefix="adaptdl-signals-") as folder:
        project, temporary = os.path.join(folder, "project"), os.path.join(folder, "tmp")
        os.mkdir(project)
        os.mkdir(temporary)
        with open(os.path.join(project, "big"), "wb") as file:
            file.truncate(BIG)
        building = subprocess.Popen(
            [adaptdl, "image", "build", project, "--base", "scratch", "--archive",
             os.path.join(folder, "image.tar")],
            env=os.environ | {"TMPDIR": temporary}, stderr=subprocess.PIPE, text=True,
            preexec_fn=set_signals)
        try:
            end = time.monotonic() + PATIENCE_S
            while not any(files for _, _, files in os.walk(temporary)):
                assert building.poll() is None and time.monotonic() < end, "it does not pack"
                time.sleep(0.02)
            for each in ignored:
                building.send_signal(each)
                time.sleep(0.2)
                assert building.poll() is None, f"{each} ended it, which it was to ignore"
            building.send_signal(number)
            said = building.communicate(timeout=PATIENCE_S)[1]
        finally:
            building.kill()
        assert building.returncode == -number, f"{building.returncode} after {number}: {said}"
        assert os.listdir(temporary) == [], os.listdir(temporary)
        assert sorted(os.listdir(folder)) == ["project", "tmp"], os.listdir(folder)


for ends in ENDING:
    interrupted(os.path.abspath(sys.argv[1]), ends)
interrupted(os.path.abspath(sys.argv[1]), signal.SIGTERM, ignored=(signal.SIGHUP, signal.SIGINT))
