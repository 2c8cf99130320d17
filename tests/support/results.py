"""Runs tests one after another. A test is a function; it fails by raising an exception.

A failure's report takes one screen: expectation, actual values, place, and the end of every log.
"""

import argparse
import linecache
import os
import random
import signal
import sys
import time
import traceback

from .checks import SKIPPED, Failed, Skipped, shortened
from .folder import Folder

SCREEN = 60  # lines of a failure's report, approximately
WIDTH = 300  # characters of a line at most
HERE = os.path.dirname(os.path.abspath(__file__))


def where(error):
    """The places of an error: in the test and the innermost one, outside this package."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if os.path.dirname(os.path.abspath(frame.filename)) != HERE]
    lines = []
    for frame in frames[:1] + frames[1:][-1:]:
        source = [linecache.getline(frame.filename, number).strip() for number in
                  range(frame.lineno, (frame.end_lineno or frame.lineno) + 1)]
        lines.append(f"at {os.path.basename(frame.filename)}:{frame.lineno}, {frame.name}: "
                     + " ".join(source))
    return lines


def failure(error, logs):
    """The lines of a failure's report. `logs`: [(title, lines)], the most useful first."""
    text = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
    came = [shortened(line) for line in text.splitlines()]
    if len(came) > SCREEN // 2:
        came = [*came[:SCREEN // 4], "...", *came[-SCREEN // 4:]]
    lines = came + where(error)
    each = max(4, (SCREEN - len(lines)) // max(1, min(len(logs), 8)) - 1)
    for title, said in logs[:8]:
        lines += [f"---- {title}:", *(shortened(line, WIDTH) for line in said[-each:])]
    if len(logs) > 8:
        lines.append("---- and logs of " + ", ".join(title for title, _ in logs[8:]))
    return lines


class Results:
    """The results of the tests so far; prints a line for each."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, name, test, *arguments, logs=list):
        """Returns whether the test passed. logs() returns [(title, lines)] after a failure."""
        begun = time.monotonic()

        def say(outcome, *lines):
            took = f"{outcome} {name} {time.monotonic() - begun:.1f} s"
            print(": ".join([took, *map(str, lines[:1])]), *("    " + line for line in lines[1:]),
                  sep="\n", flush=True)

        try:
            test(*arguments)
        except Skipped as reason:
            self.skipped += 1
            say("SKIPPED", reason)
        except Exception as error:  # a failed check or a bug in the test
            self.failed += 1
            try:
                known = logs()
            except Exception as problem:
                known = [("the logs cannot be had", [repr(problem)])]
            say("FAILED", *failure(error, known))
            return False
        else:
            self.passed += 1
            say("ok")
        return True

    def code(self):
        """The exit code of a program that runs tests."""
        if not self.passed and not self.failed:
            return SKIPPED if self.skipped else 2
        return 1 if self.failed else 0


def end_by_sigterm():
    """Makes SIGTERM unwind the stack, so that started processes are ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def skip_all(reason):
    """Skips the whole test program."""
    print("SKIPPED:", reason, flush=True)
    sys.exit(SKIPPED)


def main(*tests):
    """Runs tests, each in its own folder with its own random numbers: test(folder, draw)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("adaptdl")
    parser.add_argument("material", nargs="?", default="",
                        help="what the tests work with: the folder "
                        "of training programs, or what plays a replica, or a manual")
    parser.add_argument("--only", choices=[test.__name__ for test in tests],
                        help="the one test to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="how often, with other seeds")
    parser.add_argument("--seconds", type=float,
                        help="how long a test goes on that draws what it does")
    options = parser.parse_args()
    end_by_sigterm()
    results = Results()
    for seed in range(options.seed, options.seed + options.times):
        for test in tests:
            if options.only not in (None, test.__name__):
                continue
            with Folder(os.path.abspath(options.adaptdl),
                        os.path.abspath(options.material)) as folder:
                folder.seconds = options.seconds

                def whole():
                    test(folder, random.Random(seed))
                    folder.check_nothing_left()

                results.run(f"{test.__name__} (seed {seed})", whole, logs=folder.logs)
    sys.exit(results.code())
