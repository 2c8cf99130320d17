"""Drives `adaptdl serve` in tests: a service with a state folder of its own, jobs sent to its socket.

A test script is started as SCRIPT ADAPTDL PROGRAMS [--only NAME] [--seed N] [--times N]; see
tests/elastic/harness.py, whose folders and checks these tests share. At the end of each test every
process that the service or its jobs started must be gone.
"""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time

from harness import PATIENCE, Failed, check, kill, main, wait_until  # noqa: F401

ENDED = ("Succeeded", "Failed", "Cancelled")


class Service:
    """One `adaptdl serve`, maybe killed and started again."""

    def __init__(self, folder, *arguments, **environment):
        self.folder = folder
        self.state = os.path.join(folder.path, "local")
        self.arguments = arguments
        self.environment = folder.environment | {"ADAPTDL_LOCAL_STATE": self.state} | environment
        self.log = os.path.join(folder.path, "service.log")
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.folder.binary, "serve", *self.arguments], env=self.environment,
                cwd=self.folder.path, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: self.answers() or self.process.poll() is not None, "the service answers")
        check(self.process.poll() is None, "the service ended", self.said())
        return self

    def said(self):
        with open(self.log, errors="replace") as file:
            return file.read()[-4000:]

    def socket_path(self):
        return os.path.join(self.state, "service.sock")

    def answers(self):
        with contextlib.suppress(OSError):
            return self.request("hello")
        return None

    def request(self, request, **fields):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(self.socket_path())
            control.sendall(json.dumps({"request": request, "protocol": 1} | fields).encode() +
                            b"\n")
            with control.makefile() as lines:
                line = lines.readline()
        if not line:
            raise ConnectionError("no answer")
        return json.loads(line)

    def ask(self, request, **fields):
        answer = self.request(request, **fields)
        check(answer["ok"], f"{request} was refused", answer, self.said())
        return answer

    def submit(self, program, *arguments, **spec):
        """The job's name. `program` alone is a command; a .pt is an archive."""
        kind = "archive" if program.endswith(".pt") else "command"
        full = {"format": 1, "kind": kind, "program": program, "arguments": list(arguments),
                "directory": self.folder.path, "min_replicas": 1}
        if kind == "command":
            full["max_replicas"] = 1
        full |= spec
        return self.ask("submit", spec=full)["name"]

    def shell(self, script, **spec):
        return self.submit("/bin/sh", "-c", script, **spec)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends the service by request; jobs go on."""
        self.ask("stop")
        check(self.process.wait(PATIENCE) == 0, "the service did not end well", self.said())

    def command(self, *arguments, timeout=PATIENCE):
        """Another command, to its end: (exit code, stdout, stderr)."""
        done = subprocess.run([self.folder.binary, *arguments], env=self.environment,
                              cwd=self.folder.path, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout)
        return done.returncode, done.stdout, done.stderr

    def query(self, sql, *values):
        path = os.path.join(self.state, "state.db")
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values)]

    def job(self, name):
        rows = self.query("SELECT * FROM jobs WHERE name=?", name)
        check(rows, f"there is no job {name}")
        return rows[0]

    def events(self, name):
        return self.query("SELECT kind, message FROM events WHERE job=? ORDER BY id", name)

    def wait_job(self, name, condition, sentence, timeout=PATIENCE):
        try:
            return wait_until(lambda: condition(self.job(name)), f"job {name}: {sentence}", timeout)
        except Failed as failed:
            raise Failed(f"{failed}\n{self.story(name)}") from None

    def wait_phase(self, name, *phases, timeout=PATIENCE):
        return self.wait_job(name, lambda job: job["phase"] in phases and job, f"{phases}", timeout)

    def wait_end(self, name, phase="Succeeded", timeout=PATIENCE):
        job = self.wait_phase(name, *ENDED, timeout=timeout)
        check(job["phase"] == phase, f"job {name}: {job['phase']}, not {phase}", self.story(name))
        return job

    def job_folder(self, name):
        return os.path.join(self.state, "jobs", name)

    def file(self, name, path):
        with open(os.path.join(self.job_folder(name), path), errors="replace") as file:
            return file.read()

    def logs(self, name):
        folder = os.path.join(self.job_folder(name), "logs")
        if not os.path.isdir(folder):
            return ""
        return "".join(self.file(name, os.path.join("logs", log))
                       for log in sorted(os.listdir(folder)))

    def runner_status(self, name):
        """What its runner says of itself; None if there is none."""
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(os.path.join(self.job_folder(name), "control.sock"))
            control.sendall(b'{"request": "status"}\n')
            with control.makefile() as lines:
                return json.loads(lines.readline())
        return None

    def runner_pid(self, name):
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.file(name, "runner.json"))["pid"]
        return None

    def story(self, name):
        log = ""
        with contextlib.suppress(OSError):
            log = self.file(name, "runner.log")[-1500:]
        return "\n".join([f"    {self.job(name)}", *(f"    {e}" for e in self.events(name)[-15:]),
                          "    runner: " + log, "    logs: " + self.logs(name)[-1500:],
                          "    service: " + self.said()[-1500:]])

    def close(self):
        """Ends the service and every job."""
        if self.process.poll() is None:
            for job in self.query("SELECT name FROM jobs WHERE ended_s IS NULL"):
                self.request("cancel", name=job["name"])
            wait_until(lambda: not self.query("SELECT 1 FROM jobs WHERE ended_s IS NULL"),
                       "all jobs have ended")
            self.stop()


@contextlib.contextmanager
def service(folder, *arguments, **environment):
    running = Service(folder, *arguments, **environment).start()
    try:
        yield running
        running.close()
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGKILL)
            running.process.wait()
