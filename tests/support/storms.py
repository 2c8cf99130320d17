"""Failures that are drawn, for runs on several hosts, and what must hold of what such runs tell: it
is what a run without failures trains, and no finished step is lost or done twice."""

import math
import os
import signal
import struct
import time

from .checks import Failed, check, wait_until
from .files import read_safetensors
from .processes import children_of, kill
from .runs import same_losses

RECOVERY = 60  # s; at most, from the end of a failure to the next finished step
EPOCH = 40     # steps
SHORTEST, LONGEST = 0.3, 20.0  # s; of a failure
# Such a run is to last for long: the losses of other numbers of replicas differ in their last bits,
# and faster learning makes more of that.
ENDLESS = ("--set", "epochs=1000000", "--set", "optimizer.lr=0.001")


class Group:
    """A run with a replica on each of its hosts, 0 and up. Like a supervisor, or a user, it starts
    again what has ended. Of who leads and how hosts start, see its subclasses:

        leader              a host
        runs                all of them (support.Run)
        pod(host)           its newest run
        begin(host, *more)  starts it
    """

    def __init__(self, folder, network, hosts, settings, name):
        self.folder, self.network, self.name = folder, network, name
        self.ranks = list(range(hosts))
        self.settings = (*ENDLESS, "--set", "checkpoint_interval_s=1", *settings)
        self.killed = set()  # hosts
        self.given_up = 0    # runs
        self.untold = 0      # steps that no event tells of
        self.recovery = 0.0  # s; the longest so far

    @property
    def run(self):
        return self.pod(self.leader)

    def start(self, host, *more):
        self.begin(host, *self.settings, *more)
        self.killed.discard(host)

    def start_all(self, *more):
        for host in self.ranks:
            self.start(host, *more)
        self.wait_whole()

    def leads(self):
        """What each launcher has told, in order."""
        found = [lead for run in self.runs for lead in run.leads()]
        return [events for _, events in sorted(found, key=lambda lead: lead[0])]

    def steps_told(self):
        return sum(len(run.of("step")) for run in self.runs)

    def wait_whole(self, timeout=RECOVERY):
        """Until each host has a replica that trains."""
        def size():
            return next((e["to"] for e in reversed(self.run.of("generation"))), 0)

        self.wait(lambda: self.launcher_lives() and size() == len(self.ranks),
                  "a replica on each host", timeout)

    def launcher_lives(self):
        """Else what the newest one has told is not true any more."""
        pids = [event["pid"] for event in self.run.of("start")]
        return pids and self.run.process.poll() is None and kill(pids[-1], 0)

    def wait_progress(self):
        """After the end of a failure."""
        begun, wanted = time.monotonic(), self.steps_told() + 2
        self.wait(lambda: self.steps_told() >= wanted, "a step")
        self.recovery = max(self.recovery, time.monotonic() - begun)

    def wait(self, condition, sentence, timeout=RECOVERY):
        wait_until(lambda: self.go_on() and condition(), sentence, timeout,
                   tell=lambda: [self.pod(host).said()[-300:] for host in self.ranks])

    def go_on(self):
        """A run that has given up after --max-restarts is started again."""
        ends = self.run.of("end")
        if self.run.process.poll() == 1 and ends and "breakdowns in a row" in ends[0]["reason"]:
            self.given_up += 1
            for host in self.ranks:
                self.kill_host(host)
            self.start_killed()
        return True

    def processes(self, host):
        """A host's: the launcher or the agent, then what these have started."""
        process = self.pod(host).process
        found = [process.pid] if process.poll() is None else []
        for pid in found:
            found += children_of(pid)
        return found

    def frozen(self, host):
        """Stops a host; returns what continues it."""
        stopped = self.processes(host)
        for pid in stopped:
            kill(pid, signal.SIGSTOP)

        def go_on():
            for pid in reversed(stopped):
                kill(pid, signal.SIGCONT)

        return go_on

    def kill_replica(self, host):
        leads = {event["pid"] for event in self.pod(host).of("start")}
        return any(kill(pid) for pid in self.processes(host)[1:] if pid not in leads)

    def kill_host(self, host):
        self.killed.add(host)
        for pid in self.processes(host):
            kill(pid)

    def start_killed(self):
        for host in sorted(self.killed):
            self.pod(host).end()
            self.start(host)

    def check_living(self):
        """Nothing ends but what was killed."""
        self.go_on()
        for host in self.ranks:
            code = self.pod(host).process.poll()
            check(code is None or host in self.killed, f"host {host} has ended with {code}",
                  self.pod(host).said()[-1000:])

    def expect_end(self, code):
        for host in self.ranks:
            self.pod(host).expect_end(code, 2 * RECOVERY)

    # ---- what it did

    def losses(self):
        """The losses of all launchers' steps, which these checks join."""
        steps = Steps()
        for events in self.leads():
            diverged = of(events, "diverged")
            check(not diverged, "replicas differ", diverged)
            check_generations(events)
            try:
                steps.take(events)
            except Failed as error:
                raise Failed("\n".join([str(error), *self.stories()])) from None
        self.untold = steps.newest - len(steps.losses)
        return steps.losses

    def stories(self):
        """Of each launcher, in order: who, from when on, and what it has told."""
        leads = sorted(((moment, run, events) for run in self.runs
                        for moment, events in run.leads()), key=lambda lead: lead[0])
        return [f"{moment - leads[0][0]:8.3f} s {os.path.basename(run.log)} "
                f"{events[0].get('pid')}: {told(events)}" for moment, run, events in leads]

    def restarts(self):
        """How often all replicas started again under the same launcher."""
        return sum(event["cause"] == "restart" for events in self.leads()
                   for event in of(events, "generation"))

    def undisturbed(self, epochs):
        """What one replica trains without a network."""
        fixed = self.folder.run(self.folder.program(self.name), "--name", "fixed", *self.settings,
                                "--set", f"epochs={epochs}")
        fixed.expect_end(0, 600)
        return fixed

    def check_losses(self, ours, wanted):
        same_losses(ours, {step: wanted[step] for step in ours},
                    1e-12 if self.name == "samples" else 1e-5)

    def check_same(self, epochs, model):
        """What was trained, with this model in the end, is what one replica trains."""
        trained = parameters(self.folder, model)
        losses, fixed = self.losses(), self.undisturbed(epochs)
        wanted = fixed.losses()
        check(max(losses) == len(wanted), "another number of steps", max(losses), len(wanted))
        self.check_losses(losses, wanted)
        same_parameters(trained, parameters(self.folder, fixed.end_event()["model"]))


def of(events, kind):
    return [event for event in events if event["event"] == kind]


class Steps:
    """The finished steps under launchers, one after another. Each follows the one before; after a
    restart no more is done again than follows the newest checkpoint."""

    def __init__(self):
        self.losses = {}
        self.newest = self.last = self.kept = 0  # steps: finished ever, and now; in a checkpoint
        self.run_ids = set()

    def take(self, events):
        follows = 0  # the step before
        begins = 0   # the last step before the generation
        begun = follows_another = new_launcher = False
        for event in events:
            kind, step = event["event"], event.get("step")
            if kind == "start":
                follows_another = event["run_id"] in self.run_ids
                self.run_ids.add(event["run_id"])
            elif kind == "resume":
                # A launcher that was killed may not have told of steps that a checkpoint has.
                check(self.kept <= step, "not the newest checkpoint", self.kept, event)
                follows = begins = self.last = step
                begun = True
            elif kind == "checkpoint":
                self.kept = max(self.kept, step)
            elif kind == "generation":
                begins = step
                # The replicas have another launcher, which tells again of a generation that goes on
                # and of steps of which it does not know that the lost one has told.
                new_launcher = new_launcher or (not begun and follows_another)
                begun = True
            elif kind == "step":
                # Rank 0 may have finished steps that it could not announce: its host was lost.
                fits = (step <= self.last + 1 if new_launcher else
                        step > follows and step in (follows + 1, begins, begins + 1))
                check(fits, "a step is lost, or comes twice", self.last, begins, event)
                new_launcher = False
                same_losses({step: event["loss"]}, {step: self.losses.get(step, event["loss"])})
                self.losses[step] = event["loss"]
                follows = self.last = step
            self.newest = max(self.newest, self.last)


def told(events):
    """Generations and their ranges of steps, in short."""
    text, first, last = "", None, None

    def steps():
        return "" if first is None else f" {first}..{last}"

    for event in events:
        if event["event"] == "step":
            step = event["step"]
            if last is not None and step != last + 1:
                text, first = text + steps(), step
            first, last = step if first is None else first, step
        elif event["event"] in ("generation", "resume", "end"):
            text, first, last = text + steps(), None, None
            fields = ("generation", "members", "cause", "step", "result", "time_s")
            text += f" {event['event']}{ {k: event[k] for k in fields if k in event} }"
    return text + steps()


def check_generations(events):
    """Only one generation finishes steps at a time."""
    newest = 0
    for event in of(events, "step"):
        check(event["generation"] >= newest, "two generations train", newest, event)
        newest = event["generation"]


def parameters(folder, model):
    """All of a model, by name."""
    path = folder.file(f"exported-{len(os.listdir(folder.path))}.safetensors")
    code, said, problem = folder.command("export", model, path)
    check(code == 0, "not exported", said, problem)
    header, elements = read_safetensors(path)
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind, size = {"F32": ("f", 4), "F64": ("d", 8)}[entry["dtype"]]
        found[name] = struct.unpack(f"<{(end - begin) // size}{kind}", elements[begin:end])
    return found


def same_parameters(ours, reference, tolerance=1e-4):
    """`tolerance`: relative to the largest element of a tensor."""
    check(ours.keys() == reference.keys(), "other tensors", ours.keys(), reference.keys())
    for name, values in reference.items():
        most = tolerance * max(map(abs, values))
        check(all(abs(a - b) <= most for a, b in zip(ours[name], values, strict=True)),
              f"other values of {name}")


class Storm:
    """Failures at random. `more`: kinds of them, and how often; `at_once`: numbers of them."""

    def __init__(self, group, draw, longest=LONGEST, more=(), at_once=(1, 1, 2)):
        self.group, self.network, self.draw = group, group.network, draw
        self.longest, self.kinds, self.at_once = longest, KINDS | dict(more), at_once
        self.undo = []
        self.counts = {}
        self.begun = time.monotonic()

    def some(self, count=1, among=None):
        return self.draw.sample(among or self.group.ranks, count)

    def others(self, host):
        return [other for other in self.group.ranks if other != host]

    def followers(self):
        return self.others(self.group.leader)

    def one_way(self):
        a, b = self.some(2)
        self.network.fail([a], [b], cut=True)
        return f"from {a} to {b}"

    def both_ways(self):
        a, b = self.some(2)
        self.network.fail_between([a], [b], cut=True)
        return f"between {a} and {b}"

    def half(self):
        followers = self.followers()
        some = self.some((len(followers) + 1) // 2, followers)
        self.network.fail_between([self.group.leader], some, cut=True)
        return f"between the launcher and {some}"

    def between_replicas(self):
        if len(self.followers()) < 2:
            return "no two of them"
        a, b = self.some(2, self.followers())
        self.network.fail_between([a], [b], cut=True)
        return f"between {a} and {b}, which see the launcher"

    def one_alone(self):
        one, = self.some(1, self.network.hosts)
        self.network.fail_between([one], [h for h in self.network.hosts if h != one], cut=True)
        return f"around {one}"

    def refused(self):
        a, b = self.some(2)
        self.network.refuse_between([a], [b])
        return f"no route between {a} and {b}"

    def lossy(self):
        self.network.fail_between(self.network.hosts, self.network.hosts, loss=0.05)
        return "5 % loss"

    def slow(self):
        one, = self.some()
        others = [h for h in self.network.hosts if h != one]
        self.network.fail_between([one], others, delay=0.2, loss=0.02)
        return f"200 ms and 2 % loss around {one}"

    def thin(self):
        one, = self.some()
        others = [h for h in self.network.hosts if h != one]
        rate = self.draw.choice([20_000, 100_000])
        self.network.fail_between([one], others, rate=rate)
        return f"{rate} bytes/s around {one}"

    def paused(self):
        one, = self.some()
        if one in self.group.killed:
            return "no pause: it is dead"
        self.undo.append(self.group.frozen(one))
        return f"pause of {one}"

    def killed_replica(self):
        one, = self.some()
        return f"SIGKILL of the replica of {one}: {self.group.kill_replica(one)}"

    def killed_agent(self):
        one, = self.some(1, self.followers())
        self.group.kill_host(one)
        return f"SIGKILL of the agent of {one}"

    def killed_launcher(self):
        leader = self.group.leader
        self.group.kill_host(leader)
        return f"SIGKILL of the launcher, on {leader}"

    def say(self, text):
        print(f"    {time.monotonic() - self.begun:6.1f} s, step {self.group.run.last_step()}: "
              f"{text}", flush=True)

    def fail_once(self):
        kinds = self.draw.choices(list(self.kinds), list(self.kinds.values()),
                                  k=self.draw.choice(self.at_once))
        seconds = math.exp(self.draw.uniform(math.log(SHORTEST), math.log(self.longest)))
        for kind in kinds:
            self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
            self.say(f"{kind.__name__} for {seconds:.1f} s: {kind(self)}")
        time.sleep(seconds)
        self.end_failures()

    def end_failures(self):
        for undo in self.undo:
            undo()
        self.undo.clear()
        self.network.heal()
        self.group.check_living()
        self.group.start_killed()

    def over(self, seconds=None, failures=None):
        return (time.monotonic() - self.begun >= (seconds or math.inf) or
                sum(self.counts.values()) >= (failures or math.inf))

    def go_on(self, seconds=None, failures=None):
        while not self.over(seconds, failures):
            self.fail_once()
            if self.draw.random() < 0.5:
                self.group.wait_progress()
            else:
                time.sleep(self.draw.uniform(0, 3))
        self.say("the network is whole")

    def tell(self):
        group = self.group
        print(f"    {sum(self.counts.values())} failures {self.counts}, "
              f"{group.run.last_step()} steps, {len(group.leads())} launchers, of which "
              f"{group.given_up} have given up, {group.restarts()} restarts, "
              f"{group.untold} steps untold, packets {self.network.carried}, at most "
              f"{group.recovery:.1f} s to the next step", flush=True)


# What fails, and how often.
KINDS = {Storm.one_way: 3, Storm.both_ways: 2, Storm.half: 2, Storm.between_replicas: 3,
         Storm.one_alone: 3, Storm.refused: 2, Storm.lossy: 2, Storm.slow: 2, Storm.thin: 2,
         Storm.paused: 3, Storm.killed_replica: 2, Storm.killed_agent: 2, Storm.killed_launcher: 1}
