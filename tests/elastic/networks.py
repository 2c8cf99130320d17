"""A run on several hosts whose network fails: it trains what a run without failures trains, no
finished step is lost or done twice, and it goes on by itself once the network is whole.

Each host has a network namespace of its own, and a router loses and delays packets between them
(support/networks.py). Host 0 runs the launcher, the others agents; the supervisor has a host, too.
Like a supervisor, the tests start again what has ended. A longer run of drawn failures:

    networks.py ADAPTDL PROGRAMS --only storm --seconds 600 --seed 7
"""

import math
import os
import signal
import struct
import time

from support import (Hosts, Network, Supervisor, check, children_of, kill, main,
                     read_safetensors, same_losses, wait_until, worker_of)

RECOVERY = 60  # s; at most, from the end of a failure to the next finished step
EPOCH = 40     # steps
SHORTEST, LONGEST = 0.3, 20.0  # s; of a failure
# Such a run is to last for long: the losses of other numbers of replicas differ in their last bits,
# and faster learning makes more of that.
ENDLESS = ("--set", "epochs=1000000", "--set", "optimizer.lr=0.001")


class Group:
    """A run with a replica on each of its hosts."""

    def __init__(self, folder, network, supervisor, *settings, name="slow"):
        self.folder, self.network, self.name = folder, network, name
        supervisor.addresses = [network.address(0)]
        self.hosts = Hosts(folder, supervisor, network)
        self.ranks = list(network.hosts)[:-1]
        self.settings = (*ENDLESS, "--set", "checkpoint_interval_s=1", *settings)
        self.launchers, self.agents = [], {}
        self.killed = set()  # ranks
        self.given_up = 0    # runs
        self.untold = 0      # steps that no event tells of
        self.recovery = 0.0  # s; the longest so far

    @property
    def run(self):
        return self.launchers[-1]

    def start(self, rank, *more):
        pod = self.hosts.pod(rank, *self.settings, *more, name=self.name)
        if rank == 0:
            self.launchers.append(pod)
        else:
            self.agents[rank] = pod
        self.killed.discard(rank)

    def start_all(self, *more):
        for rank in self.ranks:
            self.start(rank, *more)
        self.wait_whole()

    def pod(self, rank):
        return self.run if rank == 0 else self.agents[rank]

    def wait_whole(self):
        """Until each host has a replica that trains."""
        def size():
            return next((e["to"] for e in reversed(self.run.of("generation"))), 0)

        self.wait(lambda: size() == len(self.ranks), "a replica on each host")

    def wait_progress(self):
        """After the end of a failure."""
        begun, wanted = time.monotonic(), self.run.last_step() + 2
        self.wait(lambda: self.run.last_step() >= wanted, "a step")
        self.recovery = max(self.recovery, time.monotonic() - begun)

    def wait(self, condition, sentence):
        wait_until(lambda: self.go_on() and condition(), sentence, RECOVERY,
                   tell=lambda: self.run.said()[-1000:])

    def go_on(self):
        """A run that has given up after --max-restarts is started again."""
        if self.run.process.poll() == 1 and "breakdowns in a row" in self.run.end_event()["reason"]:
            self.given_up += 1
            for rank in self.ranks:
                self.kill_host(rank)
            self.start_killed()
        return True

    def processes(self, rank):
        """A host's: the launcher or the agent, and the replica."""
        process = self.pod(rank).process
        return [process.pid, *children_of(process.pid)] if process.poll() is None else []

    def frozen(self, rank):
        """Stops a host; returns what continues it."""
        stopped = self.processes(rank)
        for pid in stopped:
            kill(pid, signal.SIGSTOP)

        def go_on():
            for pid in reversed(stopped):
                kill(pid, signal.SIGCONT)

        return go_on

    def kill_replica(self, rank):
        return any(kill(pid) for pid in self.processes(rank)[1:])

    def kill_host(self, rank):
        self.killed.add(rank)
        for pid in self.processes(rank):
            kill(pid)

    def start_killed(self):
        for rank in sorted(self.killed):
            self.pod(rank).end()
            self.start(rank)

    def check_living(self):
        """Nothing ends but what was killed."""
        self.go_on()
        for rank in self.ranks:
            code = self.pod(rank).process.poll()
            check(code is None or rank in self.killed, f"host {rank} has ended with {code}",
                  self.pod(rank).said()[-1000:])

    def stop(self):
        """As the scheduler does: after a checkpoint."""
        self.run.signal(signal.SIGTERM)
        self.expect_end(143)

    def expect_end(self, code):
        for rank in self.ranks:
            self.pod(rank).expect_end(code, 2 * RECOVERY)

    def finish(self):
        """Goes on to the end of a pass, on the launcher's host alone: the run may end before other
        hosts can join. Returns the number of passes."""
        epochs = self.run.last_step() // EPOCH + 2
        self.start(0, "--set", f"epochs={epochs}")
        self.run.expect_end(0, 2 * RECOVERY)
        return epochs

    # ---- what it did

    def losses(self):
        """The losses of all launchers' steps, which these checks join."""
        steps = Steps()
        for run in self.launchers:
            check(not run.of("diverged"), "replicas differ", run.of("diverged"))
            check_generations(run)
            steps.take(run)
        self.untold = steps.last - len(steps.losses)
        return steps.losses

    def restarts(self):
        """How often all replicas started again under the same launcher."""
        return sum(event["cause"] == "restart" for run in self.launchers
                   for event in run.of("generation"))

    def check_same(self, epochs):
        """What was trained is what one replica trains without a network."""
        model = parameters(self.folder, self.run.end_event()["model"])
        fixed = self.folder.run(self.folder.program(self.name), "--name", "fixed", *self.settings,
                                "--set", f"epochs={epochs}")
        fixed.expect_end(0, 600)
        losses = self.losses()
        wanted = fixed.losses()
        check(max(losses) == len(wanted), "another number of steps", max(losses), len(wanted))
        same_losses(losses, {step: wanted[step] for step in losses},
                    1e-12 if self.name == "samples" else 1e-5)
        same_parameters(model, parameters(self.folder, fixed.end_event()["model"]))


class Steps:
    """The finished steps of runs, one after another. Each follows the one before; after a restart
    no more is done again than follows the newest checkpoint."""

    def __init__(self):
        self.losses = {}
        self.last = self.kept = 0  # steps: finished; in the newest checkpoint

    def take(self, run):
        follows = 0  # the step before
        begins = 0   # the last step before the generation
        for event in run.events:
            kind, step = event["event"], event.get("step")
            if kind == "resume":
                # A launcher that was killed may not have told of steps that a checkpoint has.
                check(self.kept <= step, "not the newest checkpoint", self.kept, event)
                follows = begins = step
                self.last = max(self.last, step)
            elif kind == "checkpoint":
                self.kept = max(self.kept, step)
            elif kind == "generation":
                begins = step
            elif kind == "step":
                # Rank 0 may have finished steps that it could not announce: its host was lost.
                check(step > follows and step in (follows + 1, begins, begins + 1),
                      "a step is lost, or comes twice", follows, begins, event)
                same_losses({step: event["loss"]}, {step: self.losses.get(step, event["loss"])})
                self.losses[step] = event["loss"]
                follows, self.last = step, max(self.last, step)


def check_generations(run):
    """Only one generation finishes steps at a time."""
    newest = 0
    for event in run.of("step"):
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


class Scene:
    """A network, its supervisor and its group."""

    def __init__(self, folder, replicas, seed, *settings, **more):
        self.network = Network(folder, replicas + 1, seed)
        self.supervisor = Supervisor(self.network.listener(replicas))
        self.group = Group(folder, self.network, self.supervisor, *settings, **more)

    def __enter__(self):
        return self.network, self.group

    def __exit__(self, *error):
        self.supervisor.__exit__(*error)
        self.network.__exit__(*error)


def endings(group):
    group.network.heal()
    group.wait_whole()
    group.wait_progress()
    group.stop()
    group.check_same(group.finish())


def plain_endings(group):
    endings(group)
    check(not group.untold, "steps are missing in the events", group.untold)


def short_failures(folder, draw):
    """What lasts for a second delays the run: connections survive it."""
    with Scene(folder, 3, 1) as (network, group):
        group.start_all()
        group.run.wait_steps_more(5)
        seen = group.run.count()
        for fail in (lambda: network.fail([0], [1], cut=True),
                     lambda: network.fail_between([1], [2], cut=True),
                     lambda: network.fail_between([0, 1], [2, 3], cut=True),
                     lambda: network.fail_between(network.hosts, network.hosts, loss=0.05),
                     lambda: network.fail_between([0], [1, 2], delay=0.2, loss=0.02)):
            fail()
            time.sleep(1)
            network.heal()
            group.wait_progress()
        check(network.carried["lost"] > 0, "no packet was lost")
        go_on = group.frozen(1)
        time.sleep(1)
        go_on()
        group.wait_progress()
        check(not [e for e in group.run.events[seen:] if e["event"] in ("generation", "failure")],
              "it rescaled")
        plain_endings(group)


def after_failure(folder, fail, seconds):
    """The generations and failures after one of so many seconds."""
    with Scene(folder, 3, 1) as (network, group):
        group.start_all()
        group.run.wait_steps_more(5)
        seen = group.run.count()
        fail(network)
        time.sleep(seconds)
        network.heal()
        group.wait_progress()
        group.wait_whole()
        check(not group.given_up, "the run has given up")
        events = group.run.events[seen:]
        plain_endings(group)
        return [[e for e in events if e["event"] == kind] for kind in ("generation", "failure")]


def links_break(folder, draw):
    """Two hosts that the launcher sees do not see each other, for longer than a connection lives:
    the same replicas connect again."""
    generations, failures = after_failure(
        folder, lambda network: network.fail_between([1], [2], cut=True), 12)
    check({(e["cause"], e["to"]) for e in generations} == {("links", 3)} and not failures,
          "not the same replicas", generations, failures)


def no_route(folder, draw):
    """The same where connections fail at once: two hosts train without the third, which comes back
    by itself."""
    generations, failures = after_failure(
        folder, lambda network: network.refuse_between([1], [2]), 20)
    check(("links", 2) in {(e["cause"], e["to"]) for e in generations} and
          generations[-1]["to"] == 3 and not failures, "other replicas", generations, failures)


def launcher_unseen(folder, draw):
    """A host that only the others see is given up, and comes back."""
    generations, failures = after_failure(
        folder, lambda network: network.fail_between([0], [1], cut=True), 35)
    check(generations[-1]["to"] == 3 and failures, "no host was lost", generations, failures)


def first_replica(group, rank):
    """Makes that of this host the first one, the oldest, which tells the launcher of the steps."""
    for other in group.ranks:
        if other == rank:
            continue
        seen = group.run.count()
        group.kill_replica(other)
        group.run.wait_replicas(len(group.ranks), RECOVERY, after=seen)
    group.run.wait_steps_more(5)


def untold_steps(folder, draw):
    """Rank 0 trains on while its agent, which passes on what it tells, stands still; then that host
    dies. Another replica tells of the steps."""
    with Scene(folder, 3, 1) as (_, group):
        group.start_all()
        first_replica(group, 1)
        kill(group.agents[1].process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        seen, told = group.run.count(), group.run.last_step()
        time.sleep(2)
        check(group.run.last_step() == told, "its agent still tells")
        group.kill_host(1)
        group.run.wait_replicas(2, RECOVERY, after=seen)
        group.run.wait_steps_more(5)
        begins = group.run.of("generation")[-1]["step"]
        check(begins > told + 10, "no steps meanwhile", told, begins)
        group.start_killed()
        plain_endings(group)


def first_unseen(folder, draw):
    """Rank 0, which tells the launcher of the steps, is on a host that the launcher does not see
    for a while: no step is missing in the events, and no host is lost."""
    with Scene(folder, 3, 1) as (network, group):
        group.start_all()
        first_replica(group, 1)
        seen = group.run.count()
        network.fail_between([0], [1], cut=True)
        time.sleep(18)
        network.heal()
        group.wait_progress()
        time.sleep(10)
        failures = [e for e in group.run.events[seen:] if e["event"] == "failure"]
        plain_endings(group)
        check(not failures, "a host was lost", failures)


def host_lost(folder, draw):
    """A host that sees nobody ends its replica; the others go on without it until it is back."""
    with Scene(folder, 3, 1) as (network, group):
        group.start_all()
        group.run.wait_steps_more(5)
        seen = group.run.count()
        network.fail_between([2], network.hosts, cut=True)
        group.run.wait_replicas(2, RECOVERY, after=seen)
        group.run.wait_steps_more(5)
        check("host" in group.run.of("failure")[-1]["reason"], "it does not say which")
        wait_until(lambda: not worker_of(group.agents[2]), "no replica without a launcher",
                   RECOVERY)
        plain_endings(group)


# ---- failures that are drawn


class Storm:
    """Failures at random, two at once now and then."""

    def __init__(self, group, draw):
        self.group, self.network, self.draw = group, group.network, draw
        self.undo = []
        self.counts = {}
        self.begun = time.monotonic()

    def some(self, count=1, among=None):
        return self.draw.sample(among or self.group.ranks, count)

    def one_way(self):
        a, b = self.some(2)
        self.network.fail([a], [b], cut=True)
        return f"from {a} to {b}"

    def both_ways(self):
        a, b = self.some(2)
        self.network.fail_between([a], [b], cut=True)
        return f"between {a} and {b}"

    def half(self):
        agents = self.group.ranks[1:]
        some = self.some((len(agents) + 1) // 2, agents)
        self.network.fail_between([0], some, cut=True)
        return f"between the launcher and {some}"

    def between_replicas(self):
        a, b = self.some(2, self.group.ranks[1:])
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
        one, = self.some(1, self.group.ranks[1:])
        self.group.kill_host(one)
        return f"SIGKILL of the agent of {one}"

    def killed_launcher(self):
        self.group.kill_host(0)
        return "SIGKILL of the launcher"

    def say(self, text):
        print(f"    {time.monotonic() - self.begun:6.1f} s, step {self.group.run.last_step()}: "
              f"{text}", flush=True)

    def fail_once(self):
        kinds = self.draw.choices(list(KINDS), list(KINDS.values()), k=self.draw.choice([1, 1, 2]))
        seconds = math.exp(self.draw.uniform(math.log(SHORTEST), math.log(LONGEST)))
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

    def go_on(self, seconds):
        while time.monotonic() - self.begun < seconds:
            self.fail_once()
            if self.draw.random() < 0.5:
                self.group.wait_progress()
            else:
                time.sleep(self.draw.uniform(0, 3))
        self.say("the network is whole")


# What fails, and how often.
KINDS = {Storm.one_way: 3, Storm.both_ways: 2, Storm.half: 2, Storm.between_replicas: 3,
         Storm.one_alone: 3, Storm.refused: 2, Storm.lossy: 2, Storm.slow: 2, Storm.thin: 2,
         Storm.paused: 3, Storm.killed_replica: 2, Storm.killed_agent: 2, Storm.killed_launcher: 1}


def storm(folder, draw):
    """Failures that are drawn, for --seconds."""
    replicas, timeout = draw.choice([3, 4]), draw.choice(["3", "300"])
    name, restarts = draw.choice(["slow", "samples"]), draw.choice(["3", "1000"])
    settings = ("--hang-timeout", timeout, "--max-restarts", restarts)
    print(f"    {replicas} replicas of {name}, {' '.join(settings)}")
    with Scene(folder, replicas, draw.getrandbits(30), *settings, name=name) as (network, group):
        group.start_all()
        weather = Storm(group, draw)
        try:
            weather.go_on(folder.seconds or 20)
            endings(group)
        finally:
            print(f"    {sum(weather.counts.values())} failures {weather.counts}, "
                  f"{group.run.last_step()} steps, {len(group.launchers)} launchers, of which "
                  f"{group.given_up} have given up, {group.restarts()} restarts, "
                  f"{group.untold} steps untold, packets {network.carried}, at most "
                  f"{group.recovery:.1f} s to the next step", flush=True)


main(short_failures, links_break, no_route, launcher_unseen, untold_steps, first_unseen, host_lost,
     storm)
