"""Drives `adaptdl run` in tests: starts it, follows its events, finds and kills its processes.

A test script is started as SCRIPT ADAPTDL PROGRAMS [--only NAME] [--seed N] [--times N]; its tests
are the functions handed to main(). Each gets a Folder of its own, and nothing of it is left: at the
end of each test every process that carries the folder's mark must be gone by itself.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PATIENCE = 90.0  # seconds; for a machine with much else to do
MARK = "ADAPTDL_ELASTIC_TEST"


class Failed(Exception):
    pass


def check(condition, sentence, *details):
    if not condition:
        raise Failed(sentence + "".join("\n    " + str(detail) for detail in details))


def wait_until(condition, sentence, timeout=PATIENCE, every=0.02):
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"waited {timeout:.0f} s for: {sentence}")
        time.sleep(every)


class Folder:
    """Where one test's runs live: copies of programs, state, sockets."""

    def __init__(self, binary, programs):
        self.binary, self.programs = binary, programs
        self.path = tempfile.mkdtemp(prefix="adaptdl-elastic-")
        self.runs, self.busy = [], []
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("ADAPTDL_")
                            or key in ("ADAPTDL_LIBTORCH", "ADAPTDL_WORKER")}
        self.environment.update({
            "XDG_STATE_HOME": os.path.join(self.path, "state"), MARK: self.path,
            "XDG_RUNTIME_DIR": os.path.join(self.path, "runtime"), "HOME": self.path})
        os.mkdir(os.path.join(self.path, "runtime"), 0o700)

    def program(self, name):
        """The path of a training program in this folder; its data are beside it."""
        for entry in os.listdir(self.programs):
            target = os.path.join(self.path, entry)
            if (entry == name + ".pt" or entry.endswith(".npy")) and not os.path.exists(target):
                os.symlink(os.path.join(self.programs, entry), target)
        return os.path.join(self.path, name + ".pt")

    def run(self, program, *arguments, **environment):
        run = Run(self, program, arguments, environment)
        self.runs.append(run)
        return run

    def command(self, *arguments):
        """Another command, to its end: (exit code, stdout, stderr)."""
        done = subprocess.run([self.binary, *arguments], env=self.environment, cwd=self.path,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def load(self, loops=2):
        """Keeps `loops` cores busy until the end of the test."""
        for _ in range(loops):
            self.busy.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))

    def processes(self):
        """Living processes that this folder's runs started, launchers too."""
        wanted = f"{MARK}={self.path}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{entry}/stat") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def check_nothing_left(self, seconds=5.0):
        def names():
            return [(pid, os.readlink(f"/proc/{pid}/exe")) for pid in self.processes()
                    if os.path.exists(f"/proc/{pid}/exe")]

        end = time.monotonic() + seconds
        while self.processes():
            check(time.monotonic() < end, f"processes are left after {seconds} s", names())
            time.sleep(0.05)
        left = [name for name in os.listdir("/dev/shm") if "adaptdl" in name]
        check(not left, "shared memory with a name is left", left)

    def close(self):
        for busy in self.busy:
            busy.kill()
            busy.wait()
        for run in self.runs:
            run.abandon()
        for pid in self.processes():  # of a test that failed
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)


class Run:
    """One `adaptdl run -o json`."""

    def __init__(self, folder, program, arguments, environment):
        self.folder = folder
        self.name = os.path.basename(program).removesuffix(".pt")
        if "--name" in arguments:
            self.name = arguments[list(arguments).index("--name") + 1]
        self.started = time.monotonic()
        self.events, self.changed = [], threading.Condition()
        self.closed = False
        self.talk = os.path.join(folder.path, f"talk-{len(folder.runs)}")
        with open(self.talk, "wb") as talk:
            self.process = subprocess.Popen(
                [folder.binary, "run", program, "--threads", "1", "-o", "json", *arguments],
                env=folder.environment | environment, cwd=folder.path, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=talk)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def said(self):
        with open(self.talk, errors="replace") as file:
            return file.read()

    def wait_for(self, condition, sentence, timeout=PATIENCE):
        """What `condition(events)` gives as soon as it is true."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                value = condition(self.events)
                if value:
                    return value
                left = end - time.monotonic()
                if self.closed or left <= 0:
                    why = "it ended" if self.closed else f"waited {timeout:.0f} s"
                    raise Failed(f"{why}; expected: {sentence}\n" + self.story())
                self.changed.wait(left)

    def wait_event(self, kind, timeout=PATIENCE, after=0, **fields):
        """The first event of that kind with these fields, from the `after`-th event on."""
        def find(events):
            for event in events[after:]:
                if event["event"] == kind and all(event.get(k) == v for k, v in fields.items()):
                    return event
            return None
        return self.wait_for(find, f"{kind} {fields}", timeout)

    def wait_step(self, step, timeout=PATIENCE):
        self.wait_for(lambda events: any(e["event"] == "step" and e["step"] >= step
                                         for e in reversed(events)), f"step {step}", timeout)

    def wait_steps_more(self, count, timeout=PATIENCE):
        self.wait_step(self.last_step() + count, timeout)

    def wait_replicas(self, replicas, timeout=PATIENCE, after=0):
        return self.wait_event("generation", timeout, after, to=replicas)

    def of(self, kind):
        with self.changed:
            return [event for event in self.events if event["event"] == kind]

    def count(self):
        with self.changed:
            return len(self.events)

    def last_step(self):
        steps = self.of("step")
        return steps[-1]["step"] if steps else 0

    def end_event(self):
        ends = self.of("end")
        check(ends, "nothing was said of the end", self.story())
        return ends[0]

    def losses(self):
        return {event["step"]: event["loss"] for event in self.of("step")}

    def request(self, **request):
        path = os.path.join(self.folder.path, "runtime", "adaptdl", "runs", self.name + ".sock")
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(path)
            control.sendall(json.dumps(request).encode() + b"\n")
            with control.makefile() as lines:
                return json.loads(lines.readline())

    def members(self):
        """{member: pid} of those who train, in order of rank."""
        pids = {m["member"]: m["pid"] for m in self.request(request="status")["members"]
                if m["state"] in ("active", "leaving", "stopped")}
        order = self.of("generation")[-1]["members"]
        return {member: pids[member] for member in order if member in pids}

    def starting(self):
        """{member: pid} of those who do not train yet."""
        return {m["member"]: m["pid"] for m in self.request(request="status")["members"]
                if m["state"] in ("starting", "ready")}

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, timeout=PATIENCE):
        """Waits for the end; the exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end within {timeout:.0f} s\n" + self.story()) from None
        self.reader.join(10)
        return code

    def expect_end(self, code, timeout=PATIENCE):
        got = self.end(timeout)
        check(got == code, f"exit code {got}, not {code}", self.story())

    def check_steps(self, first=1, last=None):
        """Every step exactly once, in order."""
        steps = [event["step"] for event in self.of("step")]
        check(steps == list(range(first, first + len(steps))),
              "steps are lost, or come twice", broken_at(steps, first), self.story())
        for event in self.of("generation"):
            steps_before = [e["step"] for e in self.events[:self.events.index(event)]
                            if e["event"] == "step"]
            before = steps_before[-1] if steps_before else first - 1
            # A step that a dead rank 0 could not announce any more is announced by the next.
            check(event["step"] in (before, before + event["immediate"]),
                  f"generation {event['generation']} is said to begin after {event['step']}, not "
                  f"{before}", self.story())
        if last is not None:
            check(steps and steps[-1] == last, f"the last step is {steps[-1:]}, not {last}")

    def story(self):
        """The end of all that happened but steps, for a failure's message."""
        lines = [json.dumps(event) for event in self.events if event["event"] != "step"]
        steps = [event["step"] for event in self.events if event["event"] == "step"]
        return (f"    steps: {steps[:1]}..{steps[-1:]}\n" +
                "".join(f"    {line[:600]}\n" for line in lines[:20] + ["..."] + lines[-10:]) +
                "    " + self.said()[-2000:].replace("\n", "\n    "))

    def abandon(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(10)
        self.process.stdout.close()


def broken_at(steps, first):
    for i, step in enumerate(steps):
        if step != first + i:
            return f"after {steps[max(0, i - 3):i]} comes {steps[i:i + 3]}"
    return "nowhere"


def kill(pid, number=signal.SIGKILL):
    """Whether there was somebody to take the signal."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def same_losses(ours, reference, relative=1e-3):
    """Each step of `ours` against the same step of `reference`."""
    check(ours.keys() == reference.keys(), f"{len(ours)} steps, not {len(reference)}")
    for step, loss in ours.items():
        other = reference[step]
        check(abs(loss - other) <= relative * abs(other),
              f"step {step}: loss {loss}, in the other run {other}")


def main(*tests):
    parser = argparse.ArgumentParser()
    parser.add_argument("adaptdl")
    parser.add_argument("programs")
    parser.add_argument("--only", help="the one test to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="how often, with other seeds")
    options = parser.parse_args()
    failed = 0
    for round_ in range(options.times):
        for test in tests:
            if options.only not in (None, test.__name__):
                continue
            seed = options.seed + round_
            folder = Folder(os.path.abspath(options.adaptdl), os.path.abspath(options.programs))
            begun = time.monotonic()
            try:
                test(folder, random.Random(seed))
                folder.check_nothing_left()
                result = "ok"
            except Exception as error:  # a failed check, or a bug of the test: both end here
                failed += 1
                result = "FAILED"
                text = str(error) if isinstance(error, Failed) else traceback.format_exc()
                print(f"{test.__name__} (seed {seed}): {text}", flush=True)
            finally:
                folder.close()
            print(f"{result:6} {test.__name__} (seed {seed}) {time.monotonic() - begun:.1f} s",
                  flush=True)
    sys.exit(1 if failed else 0)
