"""A command on several hosts: `adaptdl run --nnodes ... -- CMD` and `adaptdl torchrun --nnodes`,
typed on each. Each host has a network namespace of its own, and its own configuration folder.

ADAPTDL_TEST_PYTHON names a Python that can import torch; without it the tests that need it are
skipped with a message.
"""

import os
import re
import signal
import sys

from support import (DDP, DEVICE, Command, Site, check, children_of, kill, main, python_has, read,
                     skip, wait_until)

# Prints its place, is told of rank 0 of the others by a connection to MASTER_ADDR, and waits. Told
# to end, it exits 143. FAIL: the rank that fails at once.
PLACE = '''
import os, signal, socket, sys, time

def place():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
             "GROUP_WORLD_SIZE", "ADAPTDL_REPLICA_RANK", "ADAPTDL_NUM_REPLICAS",
             "ADAPTDL_NUM_NODES", "ADAPTDL_NUM_RESTARTS")
    return " ".join(os.environ[name] for name in names)

signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if os.environ.get("FAIL") == str(rank):
    print("this is why", file=sys.stderr)
    sys.exit(3)
for prefix in ("", "ADAPTDL_"):
    where = os.environ[prefix + "MASTER_ADDR"], int(os.environ[prefix + "MASTER_PORT"])
    if rank == 0:
        listener = socket.create_server(("", where[1]))
        peers = [listener.accept()[0] for _ in range(world - 1)]
        for peer in peers:
            peer.sendall(b"x")
        listener.close()
    else:
        while True:
            try:
                peer = socket.create_connection(where)
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        assert peer.recv(1) == b"x"
print("place", place(), flush=True)
while not os.path.exists("finish"):
    time.sleep(0.02)
'''


class Commands(Site):
    """Runs a command on its hosts."""

    def flags(self, nodes):
        return ["--nnodes", nodes, "--rdzv-endpoint", f"{self.network.address(0)}:{self.port}"]

    def command(self, host, kind, *words, name="train", environment=None):
        own = {"GLOO_SOCKET_IFNAME": DEVICE, **self.environment(host), **(environment or {})}
        return Command(self.folder, kind, *words, name=name, environment=own,
                       before=self.network.on(host))

    def places(self, host, nodes, replicas, **environment):
        """Host `host`'s part of a run of PLACE."""
        script = self.folder.write("train.py", PLACE)
        return self.command(host, "run", *self.flags(nodes), "--replicas", str(replicas), "--",
                            sys.executable, script, environment=environment)


def places_of(*runs):
    """What replicas printed, by the number of their start: {start: sorted places}."""
    found = {}
    for run in runs:
        for line in re.findall(r"place ((?:\d+ ?)+)", run.printed()):
            *place, start = map(int, line.split())
            found.setdefault(start, []).append(tuple(place))
    return {start: sorted(places) for start, places in found.items()}


def wait_places(runs, expected):
    """Until a start has exactly these places; returns its number."""
    return wait_until(lambda: next((start + 1 for start, places in places_of(*runs).items()
                                    if places == expected), None),
                      f"places {expected}", tell=lambda: (places_of(*runs),
                                                          [read(run.err) for run in runs])) - 1


def expected(*hosts):
    """The places where these hosts, the leading one first, have so many replicas."""
    world, rank, result = sum(hosts), 0, []
    for group, replicas in enumerate(hosts):
        for local in range(replicas):
            result.append((rank, world, local, replicas, group, len(hosts), rank, world,
                           len(hosts)))
            rank += 1
    return result


def places(folder, draw):
    """Ranks, sizes and addresses are right as hosts come, leave and die, which are no failures; a
    finished command ends on all hosts."""
    with Commands(folder, 3) as site:
        lead = site.places(0, "2:3", 1)
        site.share_key()
        lead.says(f"waiting for hosts: 1 of at least 2 are here (TCP port {site.port})")
        check(not lead.printed(), "it does not wait for the second host")
        second = site.places(1, "2:3", 2)
        wait_places([lead, second], expected(1, 2))
        third = site.places(2, "2:3", 1)
        wait_places([lead, second, third], expected(1, 2, 1))

        kill(second.process.pid)  # its replicas die with it
        wait_places([lead, second, third], expected(1, 1))
        lead.says("is gone; all replicas restart from what they have saved")
        third.process.send_signal(signal.SIGTERM)
        third.expect_end(143)
        last = wait_places([lead], expected(1))
        again = site.places(1, "2:3", 2)
        newest = wait_places([lead, again], expected(1, 2))
        check(newest > last, "an old start", places_of(lead, again))
        check("failed first" not in read(lead.err), "a host counts as a failure", read(lead.err))
        folder.write("finish", "")
        lead.expect_end(0)
        again.expect_end(0)
        again.says("this host's part of run train has ended, with exit code 0")
    folder.check_nothing_left()


ESTABLISHED = "01"


def peers_at(pid, port):
    """The addresses from which there are connections to a port, in the network of a process."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in read(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            _, local, remote, state, *_ = line.split()
            if int(local.split(":")[1], 16) == port and state == ESTABLISHED:
                found.add(remote.split(":")[0])
    return found


def together(folder, draw):
    """Hosts that come within a moment cost one start, not one each."""
    with Commands(folder, 3) as site:
        lead = site.places(0, "1:4", 1)
        site.share_key()
        wait_places([lead], expected(1))
        kill(lead.process.pid, signal.SIGSTOP)  # until both are there, however long they take
        others = [site.places(host, "1:4", 1) for host in (1, 2)]
        wait_until(lambda: len(peers_at(lead.process.pid, site.port)) == 2, "both connect",
                   tell=lambda: peers_at(lead.process.pid, site.port))
        kill(lead.process.pid, signal.SIGCONT)
        newest = wait_places([lead, *others], expected(1, 1, 1))
        check(list(places_of(lead, *others)) == [0, newest], "another start between",
              places_of(lead, *others))
        folder.write("finish", "")
        for run in (lead, *others):
            run.expect_end(0)


def failing_rank(folder, draw):
    """A rank that fails on another host ends the others; it is told with its host and its last
    lines, and counted. One that cannot start there is told, too."""
    with Commands(folder, 2) as site:
        script = folder.write("train.py", PLACE)
        words = [*site.flags("2"), "--max-restarts", "1", "--replicas", "1", "--", sys.executable,
                 script]
        lead = site.command(0, "run", *words, environment={"FAIL": "1"})
        site.share_key()
        other = site.command(1, "run", *words, environment={"FAIL": "1"})
        lead.expect_end(3)
        other.expect_end(3)
        said, host = read(lead.err), os.uname().nodename
        for part in (f"replica 1: exit code 3 on host {host}; all replicas restart",
                     f"exit code 3 on host {host}", "2 failures in a row; 1 is allowed",
                     "this is why"):
            check(part in said, f"not told: {part}", said)
    folder.check_nothing_left()


def launcher_goes(folder, draw):
    """Without the launcher's host the replicas end on all; its command, typed again, goes on with
    the hosts that wait for it. Ctrl-C there ends all."""
    with Commands(folder, 2) as site:
        lead = site.places(0, "2", 1)
        site.share_key()
        other = site.places(1, "2", 2)
        first = wait_places([lead, other], expected(1, 2))
        check(len(children_of(other.process.pid)) == 2, "not its replicas")
        kill(lead.process.pid)
        other.says("lost the connection to the launcher; ending the replicas here")
        wait_until(lambda: not children_of(other.process.pid), "no replica without a launcher")
        lead = site.places(0, "2", 1)
        second = wait_until(lambda: next((start for start, found in places_of(lead).items()
                                          if found == expected(1, 2)[:1]), None), "goes on")
        check(second > first, "a start has an old number", first, second)
        lead.process.send_signal(signal.SIGINT)
        lead.expect_end(130)
        other.expect_end(130)
    folder.check_nothing_left()


def refused(folder, draw):
    """Who runs another command is told so; who has another checkpoint folder is told what that may
    cost; who is one too many waits."""
    with Commands(folder, 3) as site:
        lead = site.places(0, "1:2", 1)
        site.share_key()
        wait_places([lead], expected(1))
        other = site.command(1, "run", *site.flags("1:2"), "--name", "train", "--", "sleep", "9")
        other.expect_end(1)
        other.says("the launcher refuses this host: its command is sleep 9, that of the launcher's "
                   "host")
        script = folder.file("train.py")
        apart = site.command(1, "run", *site.flags("1:2"), "--replicas", "1", "--checkpoint-dir",
                             folder.file("elsewhere"), "--", sys.executable, script)
        apart.says("this host does not share the launcher's checkpoint folder")
        wait_places([lead, apart], expected(1, 1))
        late = site.places(2, "1:2", 1)
        late.says("cannot join the run yet: the run has 2 hosts already")
        lead.process.send_signal(signal.SIGTERM)
        lead.expect_end(143)
        apart.expect_end(143)
        late.process.send_signal(signal.SIGTERM)
        late.expect_end(143)
    folder.check_nothing_left()


def tasks(folder, draw):
    """Started by mpirun on each host, they meet by the checkpoint folder, without a flag."""
    with Commands(folder, 2) as site:
        script = folder.write("train.py", PLACE)
        runs = [site.command(host, "run", "--replicas", "1", "--", sys.executable, script,
                             environment={"OMPI_COMM_WORLD_SIZE": "2",
                                          "OMPI_COMM_WORLD_RANK": str(host)})
                for host in (0, 1)]
        wait_places(runs, expected(1, 1))
        folder.write("finish", "")
        for run in runs:
            run.expect_end(0)
    folder.check_nothing_left()


def torch_script(folder, draw):
    """DistributedDataParallel over hosts by `adaptdl torchrun`: a host comes, and one dies; the
    script goes on from its snapshot, and no restart is counted."""
    if not python_has("torch"):
        skip("ADAPTDL_TEST_PYTHON names no Python with torch")
    with Commands(folder, 3) as site:
        script = folder.write("train.py", DDP)
        words = [*site.flags("2:3"), "--nproc-per-node", "1", script, "1000000"]
        lead = site.command(0, "torchrun", *words)
        site.share_key()
        others = [site.command(1, "torchrun", *words)]
        two = lead.wait_epoch("two", lambda e, r, w, p, n: w == 2 and e >= 2)
        others.append(site.command(2, "torchrun", *words))
        three = lead.wait_epoch("three", lambda e, r, w, p, n: w == 3)
        check(three[0] > two[0], "it did not go on", two, three)
        kill(others[0].process.pid)
        seen = len(lead.epochs())
        again = lead.wait_epoch("two again", lambda e, r, w, p, n: w == 2 and e > three[0])
        check(len(lead.epochs()) > seen and again[4] == 0, "a lost host is counted", again)
        wait_until(lambda: "local 0 of 1" in others[1].printed(), "each host's own",
                   tell=others[1].printed)
        lead.process.send_signal(signal.SIGINT)
        lead.expect_end(130)
        others[1].expect_end(130)
    folder.check_nothing_left()


def torch_fails(folder, draw):
    """An exception on another host is told with its traceback; --master-addr names the leader, and
    the port at which it meets the others, as --master-port does."""
    if not python_has("torch"):
        skip("ADAPTDL_TEST_PYTHON names no Python with torch")
    with Commands(folder, 2) as site:
        script = folder.write("train.py", DDP)
        words = ["--nnodes", "2", "--nproc-per-node", "1", script, "5"]
        address, port = site.network.address(0), str(site.port)
        lead = site.command(0, "torchrun", "--node-rank", "0", "--master-addr",
                            f"{address}:{port}", *words, environment={"FAIL": "1"})
        site.share_key()
        other = site.command(1, "torchrun", "--node-rank", "1", "--master-addr", address,
                             "--master-port", port, *words, environment={"FAIL": "1"})
        lead.expect_end(1)
        other.expect_end(1)
        said, host = read(lead.err), os.uname().nodename
        for part in (f"Replica 1 failed first: exit code 1 on host {host}: ValueError: odd number",
                     'raise ValueError("odd number")'):
            check(part in said, f"not told: {part}", said)
    folder.check_nothing_left()


main(places, together, failing_rank, launcher_goes, refused, tasks, torch_script, torch_fails)
