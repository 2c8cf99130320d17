"""A run on several hosts whose network fails: it trains what a run without failures trains, no
finished step is lost or done twice, and it goes on by itself once the network is whole.

Each host has a network namespace of its own, and a router loses and delays packets between them
(support/networks.py). Host 0 runs the launcher, the others agents; the supervisor has a host, too.
Like an operator, the tests start again what has ended. A longer run of drawn failures:

    networks.py ADAPTDL PROGRAMS --only storm --seconds 600 --seed 7
"""

import os
import shutil
import signal
import time

from support import RECOVERY, Group, Hosts, Network, Storm, Supervisor, check, kill, main
from support.storms import EPOCH


SUCCESSION = 60  # s; as the operator's


class Pods(Group):
    """The pods of a job, one on each host, and what the operator does: a pod that is lost comes
    again, in another one's run if that goes on, and with a rank that none has had."""

    def __init__(self, folder, network, *settings, name="slow"):
        super().__init__(folder, network, len(network.hosts) - 1, settings, name)
        self.supervisor = Supervisor(network.listener(len(self.ranks)), self.leads_now)
        self.hosts = Hosts(folder, self.supervisor, network)
        self.runs, self.host_of, self.current = [], [], {}
        self.rank_of = {}  # by host
        self.unled_since = None

    @property
    def leader(self):
        """That of the newest launcher, be it dead."""
        newest = [max((moment for moment, _ in run.leads()), default=0) for run in self.runs]
        return self.host_of[newest.index(max(newest))]

    def leads_now(self, rank):
        hosts = {rank: host for host, rank in self.rank_of.items()}
        if rank in hosts:
            self.supervisor.addresses = [self.network.address(hosts[rank])]

    def begin(self, host, *arguments):
        lives = any(pod.process.poll() is None for pod in self.current.values())
        self.rank_of[host] = 1 + max(self.rank_of.values(), default=0) if lives else 0
        pod = self.hosts.pod(self.rank_of[host], *arguments, host=host, name=self.name)
        self.runs.append(pod)
        self.host_of.append(host)
        self.current[host] = pod
        if not lives:
            self.leads_now(0)

    def pod(self, host):
        return self.current[host]

    def leading_process(self):
        starts = self.run.of("start")
        return starts[-1]["pid"] if starts else None

    def go_on(self):
        """All start again if nobody leads for a minute."""
        pid = self.leading_process()
        if pid is not None and os.path.exists(f"/proc/{pid}"):
            self.unled_since = None
        elif self.unled_since is None:
            self.unled_since = time.monotonic()
        elif time.monotonic() - self.unled_since > SUCCESSION:
            self.unled_since = None
            for host in self.ranks:
                self.kill_host(host)
            self.start_killed()
        return super().go_on()

    def stop(self):
        """As the scheduler does: all pods, after a checkpoint."""
        for host in self.ranks:
            self.pod(host).signal(signal.SIGTERM)
        self.expect_end(143)

    def finish(self):
        """Goes on to the end of a pass, on one host alone: the run may end before others can join.
        Returns the number of passes."""
        epochs = self.run.last_step() // EPOCH + 2
        self.start(0, "--set", f"epochs={epochs}")
        self.pod(0).expect_end(0, 2 * RECOVERY)
        return epochs


class Scene:
    """A network and the pods on it."""

    def __init__(self, folder, replicas, seed, *settings, **more):
        self.network = Network(folder, replicas + 1, seed)
        self.group = Pods(folder, self.network, *settings, **more)

    def __enter__(self):
        return self.network, self.group

    def __exit__(self, *error):
        self.group.supervisor.__exit__(*error)
        self.network.__exit__(*error)


def endings(group):
    group.network.heal()
    group.wait_whole()
    group.wait_progress()
    group.stop()
    epochs = group.finish()
    group.check_same(epochs, group.run.end_event()["model"])


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


def unled_and_told(folder, draw):
    """The launcher's pod dies, and all others are told to stop before, while or after another one
    begins to lead: they end soon, with a checkpoint of all finished steps."""
    for seconds in (0.0, 0.05, draw.uniform(0, 0.3)):
        with Scene(folder, 3, 1, "--set", "checkpoint_interval_s=1000") as (_, group):
            group.start_all()
            group.run.wait_steps_more(5)
            lost = group.leader
            group.kill_host(lost)
            time.sleep(seconds)
            others = [host for host in group.ranks if host != lost]
            for host in others:
                group.pod(host).signal(signal.SIGTERM)
            begun = time.monotonic()
            for host in others:
                check(group.pod(host).end() == 143, "a pod that was told to stop", seconds)
            took = time.monotonic() - begun
            check(took < 20, f"they end after {took:.1f} s", seconds)
            last = max(run.last_step() for run in group.runs)
            newest = max(os.listdir(folder.file("checkpoints")))
            check(int(newest.removeprefix("step-")) >= last, "steps are lost", last, newest)
            shutil.rmtree(folder.file("checkpoints"))


def untold_steps(folder, draw):
    """Rank 0 trains on while its agent, which passes on what it tells, stands still; then that host
    dies. Another replica tells of the steps."""
    with Scene(folder, 3, 1) as (_, group):
        group.start_all()
        first_replica(group, 1)
        kill(group.pod(1).process.pid, signal.SIGSTOP)
        time.sleep(2)  # what it has passed on before is told by then
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
    """A host that sees nobody waits, and does not lead; the others go on without it until it is
    back."""
    with Scene(folder, 3, 1) as (network, group):
        group.start_all()
        group.run.wait_steps_more(5)
        seen = group.run.count()
        network.fail_between([2], network.hosts, cut=True)
        group.run.wait_replicas(2, RECOVERY, after=seen)
        group.run.wait_steps_more(5)
        check("host" in group.run.of("failure")[-1]["reason"], "it does not say which")
        group.pod(2).says("this replica's pod is to lead the run")
        check(not group.pod(2).of("step"), "it trains alone")
        plain_endings(group)


def storm(folder, draw):
    """Failures that are drawn, for --seconds."""
    replicas, timeout = draw.choice([3, 4]), draw.choice(["3", "300"])
    name, restarts = draw.choice(["slow", "samples"]), draw.choice(["3", "1000"])
    settings = ("--hang-timeout", timeout, "--max-restarts", restarts)
    print(f"    {replicas} replicas of {name}, {' '.join(settings)}")
    with Scene(folder, replicas, draw.getrandbits(30), *settings, name=name) as (_, group):
        group.start_all()
        weather = Storm(group, draw)
        try:
            weather.go_on(folder.seconds or 20)
            endings(group)
        finally:
            weather.tell()


main(short_failures, links_break, no_route, launcher_unseen, unled_and_told, untold_steps,
     first_unseen, host_lost, storm)
