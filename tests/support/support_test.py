"""Tests of these modules: results, the report of a failure, and cleanup."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest

from support import MARK, carriers, claim, run_command, wait_until
from support import failures
from support.router import Direction

SCRIPT = r"""
import os, sys, time
from support import check, main, skip, wait_until

def passes(folder, draw):
    check(draw.random() < 1, "a number")
    check(os.path.dirname(folder.environment["XDG_STATE_HOME"]) == folder.path, "a home of its own")

def fails(folder, draw):
    folder.write("deep/a.log", "first line\nlast line\n")
    check(1 == 2, "one is two", {"one": 1})

def waits(folder, draw):
    wait_until(lambda: [], "something", 0.1)

def breaks(folder, draw):
    {}["nothing"]

def skips(folder, draw):
    skip("it is Monday")

def leaves(folder, draw):
    folder.start(["sh", "-c", "setsid sleep 1000 & :"]).wait()

def stays(folder, draw):
    folder.start(["sleep", "1000"])
    print(folder.path, flush=True)
    time.sleep(1000)

main(passes, fails, waits, breaks, skips, leaves, stays)
"""


class Support(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.script = os.path.join(self.work.name, "script.py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        self.environment = os.environ | {"TMPDIR": self.work.name}

    def result(self, test):
        done = run_command([sys.executable, self.script, "/bin/true", "--only", test],
                           env=self.environment)
        self.assertEqual(os.listdir(self.work.name), ["script.py"], "its folder is left")
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_passes(self):
        code, said = self.result("passes")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"^ok passes \(seed 1\) \d+\.\d s\n$")

    def test_a_failure_says_what_came_where_and_what_logs_say(self):
        code, said = self.result("fails")
        self.assertEqual(code, 1)
        lines = said.splitlines()
        self.assertRegex(lines[0], r"^FAILED fails \(seed 1\) \d+\.\d s: one is two$")
        self.assertEqual(lines[1:], [
            "    {'one': 1}",
            "    at script.py:11, fails: check(1 == 2, \"one is two\", {\"one\": 1})",
            "    ---- deep/a.log:", "    first line", "    last line"])

    def test_a_wait_says_for_what_and_the_last_value(self):
        code, said = self.result("waits")
        self.assertEqual(code, 1)
        self.assertIn("waited 0.1 s for: something\n    the last value: []\n", said)

    def test_a_bug_of_a_test_is_a_failure(self):
        code, said = self.result("breaks")
        self.assertEqual(code, 1)
        self.assertIn("KeyError: 'nothing'\n    at script.py:17, breaks: {}[\"nothing\"]", said)

    def test_skips(self):
        code, said = self.result("skips")
        self.assertEqual(code, 77)
        self.assertIn("it is Monday", said)

    def test_a_process_that_is_left_is_a_failure_and_ended(self):
        code, said = self.result("leaves")
        self.assertEqual(code, 1)
        self.assertIn("the end of all processes", said)
        self.assertIn("sleep", said)

    def test_sigterm_ends_what_was_started(self):
        with subprocess.Popen([sys.executable, self.script, "/bin/true", "--only", "stays"],
                              env=self.environment, stdout=subprocess.PIPE, text=True) as test:
            folder = test.stdout.readline().strip()
            wait_until(lambda: carriers(MARK, folder), "its child")
            test.send_signal(signal.SIGTERM)
            self.assertEqual(test.wait(20), 143)
        self.assertEqual(carriers(MARK, folder), [])
        self.assertFalse(os.path.exists(folder))


class Router(unittest.TestCase):
    def due(self, count=1, size=1000, **rules):
        direction, draw = Direction(**rules), random.Random(1)
        return [direction.due(size, 10.0, draw) for _ in range(count)]

    def test_passes_on_at_once(self):
        self.assertEqual(self.due(3), [10.0] * 3)

    def test_loses(self):
        self.assertEqual(self.due(cut=True), [None])
        lost = self.due(10_000, loss=0.05).count(None)
        self.assertTrue(400 < lost < 600, lost)

    def test_delays_and_slows(self):
        self.assertEqual(self.due(2, delay=0.25), [10.25] * 2)
        self.assertEqual(self.due(3, rate=4000, delay=1.0), [11.25, 11.5, 11.75])
        self.assertEqual(self.due(9, rate=4000).count(None), 4)  # waits for a second at most


class Claims(unittest.TestCase):
    def test_a_name_is_one_process_s_while_it_lives(self):
        name = f"support-{os.getpid()}"

        def other_claims():
            words = [sys.executable, "-c", f"from support import claim; print(claim('{name}'))"]
            return subprocess.run(words, check=True, capture_output=True, text=True).stdout
        self.assertEqual(other_claims(), "True\n")
        self.assertTrue(claim(name))
        self.assertFalse(claim(name))
        self.assertEqual(other_claims(), "False\n")


class Failures(unittest.TestCase):
    def test_the_end_of_what_failed_tests_printed(self):
        tests = [{"name": "good", "result": "OK", "stdout": "fine"},
                 {"name": "bad", "result": "TIMEOUT", "stdout": "1\n" * 99 + "2", "stderr": "3\n"}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            log.write("".join(json.dumps(test) + "\n" for test in tests))
            log.flush()
            said = subprocess.run([sys.executable, failures.__file__, log.name], check=True,
                                  capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(said[0], "---- bad (TIMEOUT), the end of what it printed:")
        self.assertEqual(said[1:], ["1"] * 38 + ["2", "3"])


if __name__ == "__main__":
    unittest.main()
