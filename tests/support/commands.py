"""Programs in Python under `adaptdl run -- CMD` and `adaptdl torchrun`."""

import os
import re
import subprocess

from .checks import PATIENCE, check, wait_until
from .files import read
from .processes import run_command

# The Python that tests use for programs; None if there is none.
PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")
LONG = max(PATIENCE, 120)  # s; `import torch` alone takes many on a busy machine


def python_has(module):
    """Whether PYTHON can find the module, which is not imported: that takes seconds."""
    found = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
    return bool(PYTHON) and run_command([PYTHON, "-c", found]).returncode == 0


class Command:
    """One `adaptdl run` or `torchrun` in the test's folder; what it prints goes to files. Its
    program prints `epoch E rank R of W pid P restarts N` after each epoch."""

    def __init__(self, folder, *words, name, environment=None):
        self.folder, self.name = folder, name
        number = len(folder.runs)
        folder.runs.append(self)
        self.out, self.err = folder.file(f"out-{number}"), folder.file(f"err-{number}")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = folder.start([folder.binary, *words],
                                        {"PYTHON_EXEC": PYTHON, **(environment or {})},
                                        stdout=out, stderr=err)

    def abandon(self):  # for folder.close()
        pass

    def printed(self):
        return read(self.out)

    def epochs(self):
        """(epoch, rank, world, pid, restarts) of every line."""
        lines = re.findall(r"epoch (\d+) rank (\d+) of (\d+) pid (\d+) restarts (\d+)",
                           self.printed())
        return [tuple(map(int, line)) for line in lines]

    def wait_epoch(self, sentence, condition):
        return wait_until(lambda: next((e for e in self.epochs() if condition(*e)), None), sentence,
                          LONG)

    def expect_end(self, code):
        try:
            got = self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            got = "none"
        check(got == code, f"exit code {got}, not {code}", self.printed(), read(self.err))
