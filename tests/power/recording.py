"""Programs whose files are recorded (recorder.cpp), and replays of what was recorded.

By hand, with the seed of a failure, or for longer with other seeds and more trees for each point:

    POWER_IMAGES=20 PYTHONPATH=tests python3 tests/power/checkpoints.py build/adaptdl \
        build/tests/power --seed 1 --times 50
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import mmap
import os
import shutil
import struct
import tempfile

from support import check, run_command

IMAGES = int(os.environ.get("POWER_IMAGES", "3"))  # trees for each point
KINDS = {"write": 1, "sync": 2, "close": 4, "rename": 8, "open": 16, "folder": 32, "remove": 64,
         "truncate": 128}
ERRORS = (errno.EIO, errno.ENOSPC)
ROOT, MARK = 0, 12  # of Op in log.h
HEADER = struct.Struct("=IIIIQQQq")
CONTROL = struct.Struct("=IiiII")


class Recording:
    """The folder `root`, what recorded programs did to it, and which of their calls fail."""

    def __init__(self, folder):
        self.folder = folder
        self.root = os.path.realpath(folder.file("disk"))
        os.mkdir(self.root)
        self.log = folder.write("disk.record")
        self.append(ROOT, inode=os.stat(self.root).st_ino)
        with open(folder.file("disk.control"), "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        recorder = os.path.join(folder.material, "libpower_recorder.so")
        self.environment = {"LD_PRELOAD": recorder, "POWER_FOLDER": self.root,
                            "POWER_LOG": self.log, "POWER_CONTROL": folder.file("disk.control")}
        self.points = self.trees = 0

    def file(self, *names):
        return os.path.join(self.root, *names)

    def program(self, name, *arguments, code=0, **environment):
        """Runs a program of these tests, recorded."""
        return run_command([os.path.join(self.folder.material, name), *map(str, arguments)],
                           code=code, timeout=500,
                           env=self.folder.environment | self.environment | environment)

    def append(self, kind, inode=0, text=b""):
        with open(self.log, "ab", buffering=0) as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.write(HEADER.pack(kind, 0, len(text), 0, inode, 0, 0, 0) + text)

    def mark(self, text):
        self.append(MARK, text=text.encode())

    def begin(self, **what):
        self.mark("begin " + json.dumps(what))

    def done(self, **what):
        self.mark("done " + json.dumps(what))

    def done_file(self, name):
        """Marks that a file with this content was announced."""
        with open(self.file(name), "rb") as file:
            self.mark(f"done {name} {hashlib.sha256(file.read()).hexdigest()}")

    @contextlib.contextmanager
    def failing(self, kind, call, error, lasting=False):
        """Has the given call of a kind fail; yields a function that returns how many did."""
        def hits():
            return CONTROL.unpack_from(self.control)[4]

        CONTROL.pack_into(self.control, 0, KINDS[kind], call, error, int(lasting), 0)
        try:
            yield hits
        finally:
            CONTROL.pack_into(self.control, 0, 0, 0, 0, 0, 0)

    def replay(self, subject, draw):
        """Replays everything so far. A failure says which tree repeats it."""
        scratch = tempfile.mkdtemp(prefix="power-", dir="/dev/shm")
        try:
            program = os.path.join(self.folder.material, "power_replay")
            done = run_command([program, subject, self.log, scratch, str(draw.getrandbits(31)),
                                str(IMAGES)], timeout=3000)
        finally:
            shutil.rmtree(scratch)
        check(done.returncode == 0, f"replay of {self.log}", done.stdout, done.stderr)
        print("    " + done.stdout.strip())
        words = done.stdout.split()
        self.points, self.trees = int(words[1]), int(words[3])
