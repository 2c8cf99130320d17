"""What a signal in the middle of `adaptdl image build` leaves behind: nothing.

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


def interrupted(adaptdl, number):
    with tempfile.TemporaryDirectory(prefix="adaptdl-signals-") as folder:
        project, temporary = os.path.join(folder, "project"), os.path.join(folder, "tmp")
        os.mkdir(project)
        os.mkdir(temporary)
        with open(os.path.join(project, "big"), "wb") as file:
            file.truncate(BIG)
        building = subprocess.Popen(
            [adaptdl, "image", "build", project, "--base", "scratch", "--archive",
             os.path.join(folder, "image.tar")],
            env=os.environ | {"TMPDIR": temporary}, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + PATIENCE_S
        while not any(files for _, _, files in os.walk(temporary)):
            assert building.poll() is None and time.monotonic() < end, "it does not pack"
            time.sleep(0.02)
        building.send_signal(number)
        said = building.communicate(timeout=PATIENCE_S)[1]
        assert building.returncode == -number, f"{building.returncode} after {number}: {said}"
        assert os.listdir(temporary) == [], os.listdir(temporary)
        assert sorted(os.listdir(folder)) == ["project", "tmp"], os.listdir(folder)


for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    interrupted(os.path.abspath(sys.argv[1]), each)
