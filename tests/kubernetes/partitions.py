"""Makes the network between two operators and the API server fail, and checks that every job ends
correctly and that never two operators lead.

Usage: partitions.py SECONDS SEED ADAPTDL, with ADAPTDL_TEST_KUBERNETES as for run.py. Each operator
has a host (support/networks.py), and a third one has a relay for each (relay.py), which leads to
the API server. Drawn failures, one after another: nothing passes in one direction or in both;
packets are lost, late or slow; the API server is silent, or answers 429; the leader is stopped for
longer than its lease. Meanwhile the kills of chaos.py go on. Within a minute of each failure a new
job must start. The seed determines the failures, whom they hit and how long they last.

At the end, chaos.py's checks, and the rules of leaders in history.py. For these the API server has
an audit log of what each operator writes: the relays have certificates of two users.
"""

import contextlib
import ctypes
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import typing

import run
from chaos import Chaos, seed_of
from history import Recorder, Write, broken_leader_rules, late_writes, place
from relay import Relay, contexts
from support import SKIPPED, Failed, Network, Processes, Results, check, kill, wait_until
from support.checks import Skipped
from support.networks import CLONE_NEWNET, in_thread
from world import Place, World

SERVER = 2  # the host of the relays; operators have 0 and 1
LEASES = "/apis/coordination.k8s.io/v1/namespaces/adaptdl/leases"
LEASE = "adaptdl-operator"
RECOVERY_S = 60  # at most, from the end of a failure until a new job starts
KILL = 0.03  # the chance of a kill in each second of a failure
STARTED = ("Starting", "Running", "Stopping", "Succeeded", "Failed")
QUIET = (OSError, TypeError, KeyError, Failed)  # while the API server is down


class DistantWorld(World):
    """Operators on hosts of their own."""

    def __init__(self, network, places, *arguments, **options):
        super().__init__(*arguments, **options)
        self.network, self.places, self.all_operators = network, places, []

    def next_place(self):
        taken = [operator.place for operator in self.operators]
        return next(place for place in self.places if place not in taken)

    def start_operator(self, *more):
        operator = super().start_operator(*more)
        self.all_operators.append(operator)
        return operator

    def host_of(self, operator):
        return self.places.index(operator.place)

    def beside(self, operator, function):
        namespace = self.network.namespaces[self.host_of(operator)]

        def there():
            check(ctypes.CDLL(None).setns(namespace, CLONE_NEWNET) == 0, "cannot enter a namespace")
            return function()
        return in_thread(there)

    def identities(self):
        """{identity: user} of all operators so far."""
        found = [(re.search(r"operator (\S+) of namespace", operator.said()), operator)
                 for operator in self.all_operators]
        return {told.group(1): user_at(self.host_of(operator))
                for told, operator in found if told}


def user_at(host):
    return f"operator-{host}"


# ---- the API server


def start_audit(cluster):
    """Restarts the API server with an audit log of the operators' writes; returns its path."""
    policy = cluster.write("audit.json", json.dumps({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "RequestResponse", "users": [user_at(host) for host in range(SERVER)],
                   "verbs": ["create", "update", "patch", "delete"],
                   "resources": [{"group": "", "resources": ["pods"]}, {
                       "group": "adaptdl.petuum.com", "resources": ["adaptdljobs/status"]}]},
                  {"level": "None"}]}))
    log = cluster.path("audit.log")
    cluster.commands["kube-apiserver"] += ("--audit-policy-file", policy, "--audit-log-path", log)
    cluster.restart_api_server()
    return log


def audited(path):
    """The accepted changes of jobs' statuses and of pods in an audit log: [(version, event)]. Hints
    are none: any operator may write them."""
    found, deleted = [], set()
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # the server was killed meanwhile
                continue
            asked = event.get("requestObject") or {}
            if event["responseStatus"]["code"] >= 300 or set(asked.get("status", {})) == {"train"}:
                continue
            metadata = event["responseObject"]["metadata"]
            if event["verb"] == "delete":
                if metadata["uid"] in deleted:
                    continue  # a second time: it changes nothing
                deleted.add(metadata["uid"])
            found.append((int(metadata["resourceVersion"]), event))
    return sorted(found, key=lambda pair: pair[0])


def writes_of(events):
    """The Writes of audited(). Who writes a status says which version of the job he has read. Who
    creates a pod has read the status with its group, and who deletes one has read the pod."""
    made, writes = {}, []  # made: a pod's uid or a job's group -> version
    for version, event in events:
        thing = event["responseObject"]
        metadata = thing["metadata"]
        if event["objectRef"]["resource"] == "pods":
            job = metadata["labels"]["adaptdl/job"]
            of = metadata["uid"] if event["verb"] == "delete" else (job, place(thing)[0])
            read = made.get(of, 0)
        else:
            job = metadata["name"]
            read = int(event["requestObject"]["metadata"]["resourceVersion"])
            made.setdefault((job, thing.get("status", {}).get("group")), version)
        made.setdefault(metadata["uid"], version)
        writes.append(Write(version, event["user"]["username"], job,
                            f"{event['verb']} {event['requestURI'].split('?')[0]} at "
                            f"{event['requestReceivedTimestamp']}", read))
    return writes


class Partitions(Chaos):
    def __init__(self, cluster, world, seed, relays, audit):
        super().__init__(cluster, world, random.Random(seed))
        self.plan = random.Random(f"{seed} failures")
        self.network, self.relays, self.audit = world.network, relays, audit
        self.paused, self.recoveries, self.leases = [], [], None

    # ---- failures of hosts

    def cut(self, hosts):
        self.network.fail_between(hosts, [SERVER], cut=True)

    def cut_requests(self, hosts):
        self.network.fail(hosts, [SERVER], cut=True)

    def cut_answers(self, hosts):
        self.network.fail([SERVER], hosts, cut=True)

    def lossy(self, hosts):
        self.network.fail_between(hosts, [SERVER], loss=0.05)

    def late(self, hosts):
        self.network.fail_between(hosts, [SERVER], delay=0.2)

    def slow(self, hosts):
        self.network.fail([SERVER], hosts, rate=8000)

    def silent(self, hosts):
        for host in hosts:
            self.relays[host].mode = "silent"

    def busy(self, hosts):
        for host in hosts:
            self.relays[host].pause_s = self.plan.choice((1, 5, 20))
            self.relays[host].mode = "busy"

    def pause(self, hosts):
        """In the middle of its work, if possible: soon after it has begun to write."""
        before = [self.relays[host].changes for host in hosts]
        for _ in range(3):
            self.quietly(self.submit)
        end = time.monotonic() + 3
        while time.monotonic() < end and before == [self.relays[host].changes for host in hosts]:
            time.sleep(0.001)
        time.sleep(self.plan.uniform(0, 0.05))
        for operator in list(self.world.operators):
            if self.world.host_of(operator) in hosts and kill(operator.process.pid, signal.SIGSTOP):
                self.paused.append(operator)
                self.world.operators.remove(operator)  # the last one is asked by programs
                self.world.operators.insert(0, operator)

    FAILURES: typing.ClassVar = {  # -> the shortest and the longest time, in seconds
        cut: (2, 30), cut_requests: (2, 30), cut_answers: (2, 30), lossy: (5, 20), late: (5, 20),
        slow: (5, 20), silent: (3, 60), busy: (3, 60), pause: (13, 25)}

    def heal(self):
        self.network.heal()
        for relay in self.relays:
            relay.mode = "passes"
        for operator in self.paused:
            kill(operator.process.pid, signal.SIGCONT)
        self.paused.clear()

    def leading_host(self):
        """That of the leader; 0 if there is none."""
        lease = self.world.api.get(f"{LEASES}/{LEASE}") or {"spec": {}}
        user = self.world.identities().get(lease["spec"].get("holderIdentity"))
        return 1 if user == user_at(1) else 0

    # ---- life

    def go_on(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            failure = self.plan.choice(list(self.FAILURES))
            whom = self.plan.choice(("the leader", "the leader", "the other", "both"))
            lasts = min(self.plan.uniform(*self.FAILURES[failure]), max(left, 15))
            print(f"{left:6.1f} s left: {failure.__name__} for {lasts:.1f} s: {whom}", flush=True)
            try:
                self.suffer(failure, whom, lasts)
            finally:
                self.heal()
            self.check_recovery()

    def suffer(self, failure, whom, lasts):
        leader = 0
        with contextlib.suppress(*QUIET):
            leader = self.leading_host()
        failure(self, {"the leader": [leader], "the other": [1 - leader], "both": [0, 1]}[whom])
        self.done[failure.__name__] = self.done.get(failure.__name__, 0) + 1
        end = time.monotonic() + lasts
        while time.monotonic() < end:
            self.quietly(self.mend)
            self.quietly(self.tend)
            if self.rng.random() < KILL:
                misfortune = self.rng.choice(self.MISFORTUNES)
                print(f"    {misfortune.__name__}", flush=True)
                self.done[misfortune.__name__] = self.done.get(misfortune.__name__, 0) + 1
                self.quietly(misfortune, self)
            time.sleep(min(1, max(0, end - time.monotonic())))

    def quietly(self, function, *arguments):
        """A component that is asked may be down. The operators must cope with that, not this
        program."""
        try:
            return function(*arguments)
        except QUIET as problem:
            if "an operator ended" in str(problem):
                raise
            return None

    def check_recovery(self):
        """A new job must start soon."""
        begun, before = time.monotonic(), set(self.expected)

        def started():
            self.quietly(self.mend)
            if set(self.expected) == before:
                self.quietly(self.submit)
            statuses = self.quietly(self.statuses) or {}
            return any(statuses.get(name, {}).get("phase") in STARTED
                       for name in set(self.expected) - before)
        wait_until(started, "a new job starts after the failure", RECOVERY_S, 0.2,
                   lambda: self.quietly(self.statuses))
        self.recoveries.append(time.monotonic() - begun)

    def told_writes(self):
        """All that was written so far, and who has written it."""
        return writes_of(audited(self.audit)), self.world.identities()

    def excused_creations(self):
        return {write.version for write, why in late_writes(
            self.leases.events, *self.told_writes())
            if not why and write.what.startswith("create ")}

    def leaders_problems(self):
        """Prints what leaders did; returns the rules that they have broken."""
        self.leases.stop()
        writes, users = self.told_writes()
        late = late_writes(self.leases.events, writes, users)
        print(f"{len(writes)} writes of {len(users)} operators, {len(late)} of them late; "
              f"{sum(relay.refused for relay in self.relays)} requests answered 429; "
              f"packets {self.network.carried}; recovery within "
              f"{max(self.recoveries, default=0):.1f} s of {len(self.recoveries)} failures",
              flush=True)
        for write, why in late:
            print(f"    late: {write}: {why or 'excused'}", flush=True)
        return broken_leader_rules(self.leases.events, writes, users)

    def life(self, seconds):
        self.leases, problems = Recorder(self.world.api, LEASES), []
        try:
            super().life(seconds)
        finally:
            problems += self.leaders_problems()
        check(not problems, "rules that were broken by leaders", *problems)


def with_network(cluster, environment, folder, network, results, seed):
    seconds = float(sys.argv[1])
    audit = start_audit(cluster)
    cluster.make_certificate("relay", "/CN=relay", f"IP:{network.address(SERVER)}")
    relays, places = [], []
    for host in range(SERVER):
        name = user_at(host)
        cluster.make_certificate(name, f"/O=system:masters/CN={name}", "DNS:" + name)

        def key(name):
            return cluster.path("pki", name + ".crt"), cluster.path("pki", name + ".key")
        listener = network.listener(SERVER)
        address = "https://{}:{}".format(*listener.getsockname())
        relays.append(Relay(listener, cluster.api, contexts(
            cluster.path("pki", "ca.crt"), key("relay"), key(name))))
        places.append(Place(network.on(host), cluster.write_kubeconfig(name, address),
                            network.address(host)))
    world = DistantWorld(network, places, os.path.abspath(sys.argv[3]), folder,
                         environment["ADAPTDL_TEST_KUBECONFIG"],
                         image=environment["ADAPTDL_TEST_IMAGE"])
    partitions = Partitions(cluster, world, seed, relays, audit)
    try:
        results.run(f"partitions (seed {seed})", partitions.life, seconds, logs=partitions.logs)
    finally:
        partitions.heal()
        world.close()
        for relay in relays:
            relay.stop()


def use(cluster, environment):
    results, processes, seed = Results(), Processes(), seed_of(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="adaptdl-partitions-") as folder, \
            contextlib.closing(processes):
        try:
            network = Network(processes, SERVER + 1, seed)
        except Skipped as reason:
            print("SKIPPED:", reason, flush=True)
            return SKIPPED
        with network:
            with_network(cluster, environment, folder, network, results, seed)
    return results.code()


if __name__ == "__main__":
    run.PATIENCE_S = float(sys.argv[1]) + 600
    sys.exit(run.on_node(use))
