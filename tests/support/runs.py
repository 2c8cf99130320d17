"""One `adaptdl run`; follows its events while it runs."""

import json
import os
import subprocess
import threading
import time

from .checks import PATIENCE, Failed, check, shortened, wait_until
from .files import read
from .processes import kill_child
from .sockets import ask


class Run:
    """`adaptdl run -o json` of a program in a support.Folder. `before`: what starts it on another
    host."""

    def __init__(self, folder, program, arguments, environment, before=()):
        self.folder = folder
        self.name = os.path.basename(program).removesuffix(".pt")
        if "--name" in arguments:
            self.name = arguments[list(arguments).index("--name") + 1]
        self.started = time.monotonic()
        self.events, self.changed = [], threading.Condition()
        self.moments = []  # monotonic: when each event was read
        self.closed = False
        self.log = folder.file(f"run-{len(folder.runs)}.log")
        with open(self.log, "wb") as log:
            self.process = folder.start(
                [*before, folder.binary, "run", program, "--threads", "1", "-o", "json",
                 *arguments],
                environment, stdout=subprocess.PIPE, stderr=log)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            with self.changed:
                self.events.append(event)
                self.moments.append(time.monotonic())
                self.changed.notify_all()
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def said(self):
        return read(self.log)

    def says(self, sentence, timeout=PATIENCE):
        """Waits until it has said that on standard error."""
        wait_until(lambda: sentence in self.said(), sentence, timeout, tell=self.said)

    # ---- waiting

    def wait_for(self, condition, sentence, timeout=PATIENCE):
        """Waits until `condition(events)` is true and returns its value."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                value = condition(self.events)
                if value:
                    return value
                left = end - time.monotonic()
                if self.closed or left <= 0:
                    why = "it ended" if self.closed else f"waited {timeout:.0f} s"
                    raise Failed(f"run {self.name}: {why}; expected: {sentence}\n"
                                 f"the last event: {self.events[-1:]}")
                self.changed.wait(left)
                # Conditions look at all events: not again for each one of many, which would hold
                # up the reading of them.
                self.changed.release()
                time.sleep(0.01)
                self.changed.acquire()

    def wait_event(self, kind, timeout=PATIENCE, after=0, **fields):
        """The first event of that kind with these fields, from the `after`-th event on."""
        def find(events):
            return next((event for event in events[after:] if event["event"] == kind and
                         all(event.get(k) == v for k, v in fields.items())), None)
        return self.wait_for(find, f"{kind} {fields}", timeout)

    def wait_step(self, step, timeout=PATIENCE):
        self.wait_for(lambda events: any(e["event"] == "step" and e["step"] >= step
                                         for e in reversed(events)), f"step {step}", timeout)

    def wait_steps_more(self, count, timeout=PATIENCE):
        self.wait_step(self.last_step() + count, timeout)

    def wait_replicas(self, replicas, timeout=PATIENCE, after=0):
        return self.wait_event("generation", timeout, after, to=replicas)

    def wait_size(self, replicas):
        """Waits until the last generation has this number of replicas."""
        self.wait_for(lambda events: [e["to"] for e in events if e["event"] == "generation"][-1:] ==
                      [replicas], f"{replicas} replicas")

    # ---- events

    def leads(self):
        """[(moment, events)] of each time that its host has led: when replicas began to train under
        it, monotonic, and what it has told."""
        with self.changed:
            begins = [i for i, event in enumerate(self.events) if event["event"] == "start"]
            ends = [*begins, len(self.events)][1:]
            parts = [range(begin, end) for begin, end in zip(begins, ends, strict=True)]
            first = [next((i for i in part if self.events[i]["event"] == "generation"), None)
                     for part in parts]
            return [(self.moments[i], self.events[part.start:part.stop])
                    for part, i in zip(parts, first, strict=True) if i is not None]

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
        check(ends, "nothing was said of the end")
        return ends[0]

    def losses(self):
        return {event["step"]: event["loss"] for event in self.of("step")}

    def check_steps(self, first=1, last=None, may_drop=False):
        """Checks that every step occurs exactly once, in order. `may_drop`: of so many steps that a
        busy machine is slow to read them; then it is told how many events are missing."""
        check(may_drop or not self.of("dropped"), "events were dropped", self.of("dropped"))
        before, missing = first - 1, 0
        for event in self.events:
            if event["event"] == "dropped":
                missing += event["events"]
            elif event["event"] == "step":
                check(before < event["step"] <= before + 1 + missing,
                      "steps are lost, or come twice", before, missing, event)
                before, missing = event["step"], 0
            elif event["event"] == "generation":
                # If rank 0 dies before it announces a step, the next rank 0 announces it.
                check(before <= event["step"] <= before + event["immediate"] + missing,
                      f"generation {event['generation']} is said to begin after {event['step']}, "
                      f"not {before}", missing)
        check(last is None or before == last, f"the last step is {before}, not {last}")

    def story(self):
        """All events except steps, for a failure's report."""
        with self.changed:
            steps = [event["step"] for event in self.events if event["event"] == "step"]
            others = [json.dumps(event) for event in self.events if event["event"] != "step"]
        return [*(shortened(line, 600) for line in others), f"steps: {steps[:1]}..{steps[-1:]}",
                f"exit code: {self.process.poll()}"]

    # ---- its processes

    def request(self, **request):
        return ask(self.folder.file("runtime", "adaptdl", "runs", self.name + ".sock"), **request)

    def members(self):
        """{member: pid} of the replicas that train, in rank order."""
        pids = {m["member"]: m["pid"] for m in self.request(request="status")["members"]
                if m["state"] in ("active", "leaving", "stopped")}
        order = self.of("generation")[-1]["members"]
        return {member: pids[member] for member in order if member in pids}

    def starting(self):
        """{member: pid} of the replicas that do not train yet."""
        return {m["member"]: m["pid"] for m in self.request(request="status")["members"]
                if m["state"] in ("starting", "ready")}

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, timeout=PATIENCE):
        """Waits for the end; returns the exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"run {self.name} did not end within {timeout:.0f} s") from None
        self.reader.join(10)
        return code

    def expect_end(self, code, timeout=PATIENCE):
        got = self.end(timeout)
        check(got == code, f"run {self.name}: exit code {got}, not {code}")

    def abandon(self):
        kill_child(self.process)
        self.reader.join(10)
        self.process.stdout.close()


def same_losses(ours, reference, relative=1e-5):
    """Compares each step of `ours` with the same step of `reference`."""
    check(ours.keys() == reference.keys(), f"{len(ours)} steps, not {len(reference)}")
    for step, loss in ours.items():
        other = reference[step]
        check((loss is None) == (other is None), f"step {step}: loss {loss}, not {other}")
        check(loss is None or abs(loss - other) <= relative * abs(other),
              f"step {step}: loss {loss}, in the other run {other}")
