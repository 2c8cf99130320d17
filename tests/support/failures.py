#!/usr/bin/env python3
"""Prints the end of what each failed test has printed.

Usage: failures.py LOG...   (testlog*.json of Meson)
"""

import json
import sys

LINES = 40
PASSED = ("OK", "SKIP", "EXPECTEDFAIL")


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as log:
            for test in map(json.loads, log):
                if test["result"] in PASSED:
                    continue
                said = [*test.get("stdout", "").splitlines(), *test.get("stderr", "").splitlines()]
                print(f"---- {test['name']} ({test['result']}), the end of what it printed:",
                      *said[-LINES:], sep="\n")


if __name__ == "__main__":
    main()
