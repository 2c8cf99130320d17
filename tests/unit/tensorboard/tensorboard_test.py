"""Reads an event file back with the real tensorboard package.

Usage: tensorboard_test.py UNIT_EVENTS. The Python that has tensorboard is named by
ADAPTDL_TEST_PYTHON; without one the test is skipped (77).
"""

import os
import subprocess
import sys
import tempfile

READER = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
log = EventAccumulator(sys.argv[1])
log.Reload()
assert sorted(log.Tags()["scalars"]) == ["batch", "loss/train"], log.Tags()
loss, batch = log.Scalars("loss/train"), log.Scalars("batch")
assert [e.step for e in loss] == list(range(100)), loss
assert all(abs(e.value - 1 / (e.step + 1)) < 1e-6 for e in loss), loss
assert all(e.value == 32 + e.step for e in batch), batch
assert all(abs(e.wall_time - 1767225600.25 - e.step) < 1e-6 for e in loss), loss
print("tensorboard reads 100 steps of 2 scalars")
"""


def main():
    python = os.environ.get("ADAPTDL_TEST_PYTHON")
    if not python:
        print("skipped: ADAPTDL_TEST_PYTHON names no Python with tensorboard; ./bootstrap test "
              "sets it")
        return 77
    found = subprocess.run([python, "-c", "import tensorboard"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {python} has no tensorboard")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, ADAPTDL_EVENTS_DIR=folder)
        subprocess.run([sys.argv[1], "--test-case=a file for tensorboard"], check=True,
                       env=environment, stdout=subprocess.DEVNULL)
        return subprocess.run([python, "-c", READER, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
