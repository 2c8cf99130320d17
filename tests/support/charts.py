"""Reads the charts of a run with the real TensorBoard."""

import os
import subprocess

from .checks import check

SCRIPT = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
charts = EventAccumulator(sys.argv[1])
charts.Reload()
print(len(charts.Scalars("loss/train")))
"""


def check_charts(folder, points):
    """The one run whose charts are below `folder` has at least so many points of the loss. Without
    ADAPTDL_TEST_PYTHON, only that it is there."""
    found = [path for path, _, files in os.walk(folder)
             if any(name.startswith("events.out.tfevents.") for name in files)]
    check(len(found) == 1, "no charts, or several", folder, found)
    if python := os.environ.get("ADAPTDL_TEST_PYTHON"):
        read = subprocess.run([python, "-c", SCRIPT, *found], capture_output=True, text=True,
                              check=False)
        check(read.returncode == 0 and int(read.stdout) >= points, "TensorBoard reads no loss",
              read)
