"""What a signal in the middle of `adaptdl image build` leaves behind: nothing; and what nohup does.

Usage: image_signals.py ADAPTDL
"""

import os
import signal
import subprocess
import time

from support import check, main, wait_until

PATIENCE_S = 60
BIG = 1 << 36  # bytes, of a file with nothing on its disk: packed for minutes
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(folder, number, ignored=()):
    def set_signals():  # a shell's background, or nohup, may have had us ignore some
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)

    temporary = folder.file("tmp")
    os.makedirs(temporary, exist_ok=True)
    os.truncate(folder.write("project/big"), BIG)
    before = sorted(os.listdir(folder.path))
    building = folder.start(
        [folder.binary, "image", "build", folder.file("project"), "--base", "scratch", "--archive",
         folder.file("image.tar")], {"TMPDIR": temporary}, stderr=subprocess.PIPE, text=True,
        preexec_fn=set_signals)
    wait_until(lambda: any(files for _, _, files in os.walk(temporary)) or
               building.poll() is not None,
               "it packs", PATIENCE_S)
    for each in ignored:
        building.send_signal(each)
        time.sleep(0.2)  # the time itself is tested: who does not ignore it has ended by then
        check(building.poll() is None, f"{each} ended it, which it was to ignore")
    building.send_signal(number)
    said = building.communicate(timeout=PATIENCE_S)[1]
    check(building.returncode == -number, f"{building.returncode} after {number}", said)
    check(os.listdir(temporary) == [], "temporary files are left", os.listdir(temporary))
    check(sorted(os.listdir(folder.path)) == before, "files are left", os.listdir(folder.path))


def interrupted(folder, draw):
    for number in ENDING:
        interrupt(folder, number)


def ignored(folder, draw):
    interrupt(folder, signal.SIGTERM, ignored=(signal.SIGHUP, signal.SIGINT))


main(interrupted, ignored)
