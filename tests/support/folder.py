"""The folder of one test: the test reads nothing outside it and leaves nothing behind."""

import contextlib
import os
import shutil
import sys
import tempfile

from .checks import PATIENCE, check, wait_until
from .files import logs_below, write
from .processes import Processes, carriers, kill, run_command
from .runs import Run

MARK = "ADAPTDL_TEST_FOLDER"
# Environment variables that the built program needs if it is not the installed one.
KEPT = ("ADAPTDL_LIBTORCH", "ADAPTDL_WORKER")


def paced(material):
    """What the programs there need so that their steps last (tests/elastic/pace.cpp)."""
    library = os.path.join(os.path.dirname(material), "libpace.so")
    return {"LD_PRELOAD": library} if os.path.exists(library) else {}


def isolated(path):
    """The environment of a user whose home is this folder."""
    others = ("ADAPTDL_", "XDG_", "PYTHONPATH", "SLURM_", "OMPI_", "PMI_", "PMIX_")
    environment = {key: value for key, value in os.environ.items()
                   if key in KEPT or not key.startswith(others)}
    return environment | {"HOME": path, "XDG_CONFIG_HOME": os.path.join(path, ".config"),
                          "XDG_STATE_HOME": os.path.join(path, "state"),
                          "XDG_RUNTIME_DIR": os.path.join(path, "runtime")}


class Folder:
    """Holds copies of programs, state, sockets and logs, and ends all processes started from it."""

    def __init__(self, binary, material=None):
        self.binary, self.material = binary, material
        self.seconds = None  # of --seconds
        self.path = tempfile.mkdtemp(prefix="adaptdl-test-")
        self.processes, self.runs = Processes(), []
        self.tellers = []  # functions that return (title, text) for a failure's report
        self.environment = isolated(self.path) | {MARK: self.path} | paced(material or "")
        os.mkdir(os.path.join(self.path, "runtime"), 0o700)

    def file(self, *names):
        return os.path.join(self.path, *names)

    def write(self, name, text=""):
        return write(self.file(name), text)

    def program(self, name):
        """The path of a training program in this folder, with its data in the same folder."""
        for entry in os.listdir(self.material):
            target = self.file(entry)
            if (entry == name + ".pt" or entry.endswith(".npy")) and not os.path.exists(target):
                os.symlink(os.path.join(self.material, entry), target)
        return self.file(name + ".pt")

    def run(self, program, *arguments, before=(), **environment):
        run = Run(self, program, arguments, environment, before)
        self.runs.append(run)
        self.tellers.append(lambda: (f"run {run.name}", run.story()))
        return run

    def command(self, *arguments, environment=None, timeout=PATIENCE):
        """Runs another command to its end: (exit code, stdout, stderr)."""
        done = run_command([self.binary, *arguments], timeout=timeout, cwd=self.path,
                           env=environment or self.environment)
        return done.returncode, done.stdout, done.stderr

    def start(self, words, environment=None, **options):
        """Starts a process that is ended with the test at the latest."""
        return self.processes.start(words, **{"env": self.environment | (environment or {}),
                                              "cwd": self.path} | options)

    def worker_after(self, script):
        """The environment of a run whose workers run this script of sh before they start."""
        path = self.write("worker.sh", f"#!/bin/sh\n{script}\nexec \"$REAL_WORKER\"\n")
        os.chmod(path, 0o755)
        return {"ADAPTDL_WORKER": path, "REAL_WORKER": os.environ["ADAPTDL_WORKER"]}

    def load(self, loops=2):
        """Keeps `loops` cores busy until the end of the test."""
        for _ in range(loops):
            self.processes.start([sys.executable, "-c", "while True: pass"])

    def left(self):
        """Running processes that this folder's runs started, including launchers."""
        return carriers(MARK, self.path)

    def check_nothing_left(self, seconds=20.0):
        def names():
            found = []
            for pid in self.left():
                with contextlib.suppress(OSError):
                    found.append((pid, os.readlink(f"/proc/{pid}/exe")))
            return found

        wait_until(lambda: not self.left(), "the end of all processes", seconds, tell=names)
        left = [name for name in os.listdir("/dev/shm") if "adaptdl" in name]
        check(not left, "shared memory with a name is left", left)

    def logs(self):
        """[(title, lines)] from runs and services, then of every log below the folder."""
        found = []
        for tell in self.tellers:
            with contextlib.suppress(Exception):  # the failure itself matters, not its report
                found.append(tell())
        return found + logs_below(self.path)

    def close(self):
        for run in self.runs:
            run.abandon()
        self.processes.close()
        for pid in self.left():  # left by a failed test
            kill(pid)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
