"""A run whose hosts were started by hand, while replicas, hosts and launchers are killed or stand
still, and the network between them fails: whoever is left leads and trains on, never do two sides
train, no finished step is lost or done twice, and hosts that come again find who leads. For longer:

    host_storm.py ADAPTDL PROGRAMS --seconds 600 --seed 7
"""

import itertools
import signal
import time

from support import RECOVERY, Group, Site, Storm, check, kill, main
from support.storms import EPOCH, of


class Typed(Group):
    """Hosts on each of which somebody types the command, the same one again when it was killed. The
    network may have more hosts."""

    def __init__(self, folder, site, timeout, *settings, name, hosts):
        super().__init__(folder, site.network, hosts, settings, name)
        self.site, self.timeout = site, timeout
        self.runs, self.host_of, self.current = [], [], {}

    @property
    def leader(self):
        """That of the newest launcher, be it dead."""
        newest = [max((moment for moment, _ in run.leads()), default=0) for run in self.runs]
        return self.host_of[newest.index(max(newest))]

    def pod(self, host):
        return self.current[host]

    def begin(self, host, *arguments):
        run = self.site.run(host, f"1:{len(self.ranks)}", "--host-timeout", self.timeout,
                            *arguments, program=self.name)
        if not self.runs:
            self.site.share_key()
        self.runs.append(run)
        self.host_of.append(host)
        self.current[host] = run

    def check_one_side(self):
        """Nobody finishes steps under a launcher after another one has begun to lead."""
        leads = sorted(((moment, run, events) for run in self.runs
                        for moment, events in run.leads()), key=lambda lead: lead[0])
        for (_, run, events), (begins, *_) in itertools.pairwise(leads):
            moments = {id(event): moment for event, moment in zip(run.events, run.moments,
                                                                  strict=False)}
            late = [event for event in of(events, "step") if moments[id(event)] > begins + 1]
            check(not late, "two sides train", begins, late[:1], len(late))

    def stop(self):
        self.run.request(request="cancel")
        self.expect_end(143)

    def finish(self):
        """Goes on to the end of a pass, on one host. Returns its number, and the model."""
        epochs = max(self.losses()) // EPOCH + 2
        self.start(0, "--set", f"epochs={epochs}")
        self.current[0].expect_end(0, 2 * RECOVERY)
        return epochs, self.current[0].end_event()["model"]


def killed_lead(storm):
    """The process that leads; the agent and the replica of its host go on if it is another one."""
    run = storm.group.run
    pids = [event["pid"] for event in run.of("start")]
    if not pids:
        return "nobody leads"
    if pids[-1] == run.process.pid:
        return storm.killed_launcher()
    kill(pids[-1])
    return f"SIGKILL of the process on {storm.group.leader} that leads"


MORE = {killed_lead: 2, Storm.killed_launcher: 3, Storm.killed_agent: 3}


def host_storm(folder, draw):
    """Hosts that share a folder: 40 failures that are drawn, or --seconds of longer ones."""
    hosts, timeout = draw.choice([2, 3, 4]), draw.choice(["2", "5", "20"])
    if not folder.seconds:
        hosts, timeout = 3, "5"
    name = draw.choice(["slow", "samples"])
    print(f"    {hosts} hosts, {name}, --host-timeout {timeout}")
    with Site(folder, hosts) as site:
        group = Typed(folder, site, timeout, "--max-restarts", "1000", name=name, hosts=hosts)
        group.start_all()
        storm = Storm(group, draw, longest=20.0 if folder.seconds else 1.0, more=MORE)
        try:
            if folder.seconds:
                storm.go_on(seconds=folder.seconds)
            else:
                storm.go_on(failures=40)
            group.wait_whole(10 * RECOVERY)
            group.wait_progress()
            group.stop()
            group.check_one_side()
            group.check_same(*group.finish())
        finally:
            storm.tell()


def storm_apart(folder, draw):
    """Hosts that share nothing, of which a majority goes on, so that one failure at a time must not
    matter: 10 that are drawn, or --seconds of them."""
    one_at_a_time(folder, draw, draw.choice([3, 4]), witness=False)


def storm_witness(folder, draw):
    """The same of two hosts, and a third one that trains nothing."""
    one_at_a_time(folder, draw, 2, witness=True)


def one_at_a_time(folder, draw, hosts, witness):
    name = draw.choice(["slow", "samples"])
    print(f"    {hosts} hosts, {name}")
    with Site(folder, hosts + witness, apart=True) as site:
        group = Typed(folder, site, "1", "--max-restarts", "1000", name=name, hosts=hosts)
        group.start_all()
        others = [site.run(hosts, "1:2", "--host-timeout", "1", "--witness",
                           program=name)] if witness else []
        for other in others:
            other.says("as a witness")
        storm = Storm(group, draw, longest=6.0, more=MORE, at_once=[1])
        try:
            while not storm.over(folder.seconds or None, None if folder.seconds else 10):
                storm.fail_once()
                group.wait_progress()
                time.sleep(1.5)  # who was silent for almost so long is lost a moment later
                group.wait_whole(10 * RECOVERY)
            group.wait_progress()
            for run in [*map(group.pod, group.ranks), *others]:
                run.signal(signal.SIGTERM)
            group.expect_end(143)
            check(all(other.end() == 143 for other in others), "a witness that was told to go")
            group.check_one_side()
            losses = group.losses()
            check(not group.restarts(), "all replicas were lost")
        finally:
            storm.tell()
        epochs = max(losses) // EPOCH + 1
        group.check_losses(losses, group.undisturbed(epochs).losses())


main(host_storm, storm_apart, storm_witness)
