"""Drives `adaptdl serve` in tests: a service with its own state folder, and jobs sent to its
socket."""

import contextlib
import os
import sqlite3

from .checks import PATIENCE, check, wait_until
from .files import json_lines, read, read_json
from .processes import kill_child
from .sockets import ask

ENDED = ("Succeeded", "Failed", "Cancelled")
SHOWN = ("phase", "reason", "message", "why", "slots", "starts", "restarts", "exit_code")
LIVE_JOBS = "SELECT name FROM jobs WHERE ended_s IS NULL"


class Service:
    """One `adaptdl serve` in a support.Folder; tests may kill and restart it."""

    def __init__(self, folder, *arguments, **environment):
        self.folder = folder
        self.state = folder.file("local")
        self.arguments = arguments
        self.environment = folder.environment | {"ADAPTDL_LOCAL_STATE": self.state} | environment
        self.log = folder.file("service.log")
        self.process = None
        folder.tellers.append(lambda: ("jobs", self.tell()))

    def start(self):
        with open(self.log, "ab") as log:
            self.process = self.folder.start([self.folder.binary, "serve", *self.arguments],
                                             self.environment, stdout=log, stderr=log)
        wait_until(lambda: self.answers() or self.process.poll() is not None, "the service answers")
        check(self.process.poll() is None, "the service ended")
        return self

    def said(self):
        return read(self.log)

    def socket_path(self):
        return os.path.join(self.state, "service.sock")

    # ---- requests and commands

    def answers(self):
        with contextlib.suppress(OSError):
            return self.request("hello")
        return None

    def request(self, request, **fields):
        return ask(self.socket_path(), request=request, protocol=1, **fields)

    def ask(self, request, **fields):
        answer = self.request(request, **fields)
        check(answer["ok"], f"{request} was refused", answer)
        return answer

    def spec(self, program, *arguments, **fields):
        """The spec of a job: `program` is a command, or an archive if it ends in .pt."""
        kind = "archive" if program.endswith(".pt") else "command"
        full = {"format": 1, "kind": kind, "program": program, "arguments": list(arguments),
                "directory": self.folder.path, "min_replicas": 1}
        if kind == "command":
            full["max_replicas"] = 1
        return full | fields

    def submit(self, program, *arguments, **spec):
        """Submits a job; returns its name."""
        return self.ask("submit", spec=self.spec(program, *arguments, **spec))["name"]

    def shell(self, script, **spec):
        return self.submit("/bin/sh", "-c", script, **spec)

    def command(self, *arguments, timeout=PATIENCE):
        """Runs another command to its end: (exit code, stdout, stderr)."""
        return self.folder.command(*arguments, environment=self.environment, timeout=timeout)

    def kill(self):
        kill_child(self.process)

    def stop(self):
        """Ends the service by a request; jobs continue."""
        self.ask("stop")
        check(self.process.wait(PATIENCE) == 0, "the service did not end well")

    # ---- jobs

    def query(self, sql, *values):
        path = os.path.join(self.state, "state.db")
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values)]

    def change(self, sql, *values):
        """Changes the database without the service."""
        path = os.path.join(self.state, "state.db")
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute(sql, values)

    def job(self, name):
        rows = self.query("SELECT * FROM jobs WHERE name=?", name)
        check(rows, f"there is no job {name}")
        return rows[0]

    def events(self, name):
        return self.query("SELECT kind, message FROM events WHERE job=? ORDER BY id", name)

    def wait_job(self, name, condition, sentence, timeout=PATIENCE):
        return wait_until(lambda: condition(self.job(name)), f"job {name}: {sentence}", timeout,
                          tell=lambda: self.job(name))

    def wait_phase(self, name, *phases, timeout=PATIENCE):
        return self.wait_job(name, lambda job: job["phase"] in phases and job, f"{phases}", timeout)

    def wait_end(self, name, phase="Succeeded", timeout=PATIENCE):
        job = self.wait_phase(name, *ENDED, timeout=timeout)
        check(job["phase"] == phase, f"job {name}: {job['phase']}, not {phase}", job)
        return job

    def job_file(self, name, *path):
        return os.path.join(self.state, "jobs", name, *path)

    def record(self, name):
        """The runner's record of the job: run.json."""
        return read_json(self.job_file(name, "run.json"))

    def run_events(self, name):
        return json_lines(self.job_file(name, "events.jsonl"))

    def logs(self, name):
        folder = self.job_file(name, "logs")
        if not os.path.isdir(folder):
            return ""
        return "".join(read(os.path.join(folder, log)) for log in sorted(os.listdir(folder)))

    def runner_status(self, name):
        """The status that its runner reports; empty if there is no runner."""
        with contextlib.suppress(OSError, ValueError):
            return ask(self.job_file(name, "control.sock"), request="status")
        return {}

    def runner_pid(self, name):
        with contextlib.suppress(OSError, ValueError):
            return read_json(self.job_file(name, "runner.json"))["pid"]
        return None

    def tell(self):
        """The state of all jobs and their last events, for a failure's report."""
        lines = []
        for job in self.query("SELECT * FROM jobs ORDER BY id DESC LIMIT 4"):
            lines.append(f"{job['name']}: " + ", ".join(f"{key} {job[key]}" for key in SHOWN))
            lines += [f"  {event['kind']}: {event['message']}"
                      for event in self.events(job["name"])[-4:]]
        return lines

    def end_jobs(self):
        for job in self.query(LIVE_JOBS):
            self.request("cancel", name=job["name"])
        wait_until(lambda: not self.query(LIVE_JOBS), "all jobs have ended")

    def close(self):
        """Ends the service and every job."""
        if self.process.poll() is None:
            self.end_jobs()
            self.stop()


@contextlib.contextmanager
def service(folder, *arguments, **environment):
    running = Service(folder, *arguments, **environment).start()
    try:
        yield running
        running.close()
    finally:
        running.kill()
