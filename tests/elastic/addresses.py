"""The addresses and ports at which hosts of `adaptdl run --nnodes` reach each other. Each host has
a network namespace of its own."""

import collections
import os
import signal

from support import Network, check, children_of, free_port, main, run_command

NEVER = ("--set", "epochs=1000000")
PORTS = (29500, 29502)


class Site:
    """Hosts of a network, which share their key; host 0 leads."""

    def __init__(self, folder, hosts):
        self.folder, self.network, self.port = folder, Network(folder, hosts), free_port()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.network.__exit__(*error)

    def run(self, host, *arguments, endpoint=None):
        return self.folder.run(
            self.folder.program("slow"), *NEVER, "--nnodes", "1:3", "--rdzv-endpoint",
            f"{endpoint or self.network.address(0)}:{self.port}", *arguments,
            before=self.network.on(host))

    def ports(self, host, run):
        """At which replicas of that host listen."""
        lines = run_command([*self.network.on(host), "ss", "-Hltnp"], 0).stdout.splitlines()
        pids = [f"pid={pid}," for pid in children_of(run.process.pid)]
        return {int(line.split()[3].rpartition(":")[2]) for line in lines
                if any(pid in line for pid in pids)}

    def connected(self, host):
        """How many connections lead from that host to the port to which most do, by address."""
        words = [*self.network.on(host), "ss", "-Htn", "state", "established"]
        lines = run_command(words, 0).stdout.splitlines()
        ends = [line.split()[3].rpartition(":") for line in lines]
        most = collections.Counter(port for _, _, port in ends).most_common(1)[0][0]
        return collections.Counter(address for address, _, port in ends if port == most)


def stop(run, *others):
    run.request(request="cancel")
    run.expect_end(143)
    for other in others:
        check(other.end() == 143, "a host of a cancelled run")


def chosen(folder, draw):
    """The addresses in use are told once; each host has ports and an interface of its own choice.
    An address that both hosts have, like that of a bridge for containers, leads nowhere."""
    with Site(folder, 3) as site:
        for host in (0, 1):
            site.network.ip(host, "addr", "add", "172.17.0.1/24", "dev", "net0")
        run = site.run(0, "--replicas", "2", "--ports", f"{PORTS[0]}-{PORTS[1]}")
        run.wait_replicas(2)
        other = site.run(1)
        run.wait_replicas(3)
        for host in (0, 1):
            run.says(f"are reached at {site.network.address(host)} (net0)")
        run.wait_steps_more(3)
        ports = site.ports(0, run)
        check(len(ports) == 2 and all(PORTS[0] <= port <= PORTS[1] for port in ports),
              "replicas listen at other ports than those of --ports", ports)
        third = site.run(2, "--interface", "net0", "--ports", "29500-29500")
        run.wait_replicas(4)
        run.wait_steps_more(3)
        check(site.ports(2, third) == {29500}, "it listens elsewhere", site.ports(2, third))
        run.says(f"are reached at {site.network.address(2)} (net0)")
        said = run.said()
        check(said.count("are reached at") == 3, "not each address once", said)
        run.check_steps()
        stop(run, other, third)


def unreachable(folder, draw):
    """Who has told others a wrong address trains alone, and reads who tried what, and what came
    back."""
    with Site(folder, 3) as site:
        wrong = site.network.address(2)  # where nobody listens
        run = site.run(0, "--advertise", wrong, "--ports", "29500-29500")
        run.wait_steps_more(1)
        other = site.run(1)
        run.says(f": {wrong} port 29500 (advertised): refused. Is a firewall in between? --ports")
        run.says("replica 1 on ")
        run.says(" cannot reach replica 0 on ")
        run.wait_steps_more(3)
        check(all(event["to"] == 1 for event in run.of("generation")), "they reach each other")
        other.signal(15)
        check(other.end() == 143, "a host that was told to go")
        again = site.run(2, "--interface", "net9")
        check(again.end() == 1, "an interface that there is not is taken")
        again.says("--interface: network interface net9: not found, down or without an address; "
                   f"this host has net0 ({wrong}), lo (127.0.0.1)")
        stop(run)


def part(site):
    """Two of three hosts lose each other, not the launcher: the newer one does not go on. Returns
    the run and the other hosts'."""
    run = site.run(0)
    others = []
    for host in (1, 2):
        others.append(site.run(host))
        run.wait_replicas(host + 1)
    run.wait_steps_more(3)
    site.network.refuse_between([1], [2])
    run.wait_replicas(2)
    run.says("takes no part for 15 s: it and others do not reach each other")
    run.wait_steps_more(3)
    return run, others


def parted(folder, draw):
    """The others train, and no step is lost."""
    with Site(folder, 3) as site:
        run, others = part(site)
        run.check_steps()
        check(not run.of("resume"), "from a checkpoint")
        stop(run, *others)


def meets_again(folder, draw):
    """The host is tried again when the network has healed."""
    with Site(folder, 3) as site:
        run, others = part(site)
        site.network.heal()
        run.says("is tried again")
        run.wait_replicas(3)
        run.wait_steps_more(3)
        run.check_steps()
        stop(run, *others)


def several(folder, draw):
    """Two networks: the links between two hosts go by both, and by one when the other one fails. A
    host that wants another number of links is refused."""
    with Site(folder, 2) as site:
        other_address = ["10.78.0.1", "10.78.0.2"]
        for host in (0, 1):
            site.network.ip(host, "addr", "add", other_address[host] + "/24", "dev", "net0")
        run = site.run(0, "--links", "4", "--replicas", "2")
        run.wait_replicas(2)
        stranger = site.run(1, "--links", "2")
        check(stranger.end() == 1, "a host with another number of links does not fail")
        stranger.says("refuses this host: its --links is 2, that of the launcher's host 4")
        other = site.run(1, "--links", "4", "--replicas", "2")
        run.wait_replicas(4)
        for address in (site.network.address(0), site.network.address(1), *other_address):
            run.says(f"are reached at {address} (net0)")
        run.wait_steps_more(3)
        # Beside those for data there is one for control of each replica.
        first = site.network.address(0)
        check(site.connected(1) == {first: 2 + 2, other_address[0]: 2}, site.connected(1))
        site.network.ip(0, "addr", "del", other_address[0] + "/24", "dev", "net0")
        before = run.count()
        run.wait_event("generation", after=before)
        run.wait_size(4)
        run.wait_steps_more(3)
        check(site.connected(1) == {first: 4 + 2}, site.connected(1))
        before = run.count()
        os.kill(draw.choice(sorted(run.members().values())), signal.SIGKILL)
        run.wait_replicas(4, after=before)
        run.wait_steps_more(3)
        check(site.connected(1) == {first: 4 + 2}, site.connected(1))
        run.check_steps()
        stop(run, other)


def ipv6(folder, draw):
    """Everything by IPv6."""
    with Site(folder, 2) as site:
        site.network.add_ipv6()
        address = site.network.address6
        run, other = (site.run(host, "--interface", address(host), endpoint=f"[{address(0)}]")
                      for host in (0, 1))
        run.wait_replicas(2)
        run.says(f"are reached at {address(0)} (net0)")
        run.says(f"are reached at {address(1)} (net0)")
        run.wait_steps_more(3)
        stop(run, other)


main(chosen, unreachable, parted, meets_again, several, ipv6)
