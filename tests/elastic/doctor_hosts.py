"""`adaptdl doctor --hosts` measures the network between hosts. Each has a network namespace of its
own, which a program in the place of ssh enters."""

import json
import os
import signal
import subprocess
import time

from support import Network, carriers, check, main, run_command, wait_until

# ssh [-o OPTION]... -T -- HOST COMMAND
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
test -e "{folder}/net-$2" || {{ echo "no such host" >&2; exit 255; }}
{mark}={folder} HOME={folder}/home nsenter --net="$(cat "{folder}/net-$2")" sh -c "$3"
"""
MARK = "ADAPTDL_TEST_PROBE"


class Site:
    """Hosts of a network, which are called by their addresses."""

    def __init__(self, folder, hosts):
        self.folder, self.network = folder, Network(folder, hosts)
        self.client = folder.write("ssh", SSH.format(folder=folder.path, mark=MARK))
        os.chmod(self.client, 0o755)
        for host in self.network.hosts:
            folder.write(f"net-{self.network.address(host)}",
                         f"/proc/{os.getpid()}/fd/{self.network.namespaces[host]}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.network.__exit__(*error)

    def words(self, *arguments, names=None):
        names = names or [self.network.address(host) for host in self.network.hosts]
        return [*self.network.on(0), self.folder.binary, "doctor", "--hosts", ",".join(names),
                *arguments]

    def environment(self):
        return self.folder.environment | {"ADAPTDL_SSH": self.client}

    def doctor(self, *arguments, code=0, **options):
        return run_command(self.words(*arguments, **options), code, env=self.environment())


def measures(folder, draw):
    """Each pair in both directions: a slow one is found."""
    with Site(folder, 3) as site:
        site.network.fail_between([1], [2], delay=0.02, rate=500_000)
        done = site.doctor("-o", "json", "--ports", "29500-29501")
        check("copying adaptdl to it" in done.stderr, "the binary is not copied", done.stderr)
        result = json.loads(done.stdout)
        names = [site.network.address(host) for host in site.network.hosts]
        check(result["ok"] and [h["host"] for h in result["hosts"]] == names, "hosts", result)
        links = {(link["from"], link["to"]): link for link in result["links"]}
        check(len(links) == 6, "not all pairs in both directions", result)
        for (_, to), link in links.items():
            check(link["address"] == to and link["interface"] == "net0", "an address", link)
        for pair in ((1, 2), (2, 1)):
            link = links[names[pair[0]], names[pair[1]]]
            check(0.04 <= link["latency_s"] < 1, "latency", link)
            check(100_000 < link["bytes_per_s"] < 1_000_000, "bandwidth", link)
        slow = result["all_reduce"]
        check({slow["from"], slow["to"]} == set(names[1:]), "not the slowest link", slow)
        wanted = 4 / 3 * 1e8 / links[slow["from"], slow["to"]]["bytes_per_s"]
        check(abs(slow["seconds"] - wanted) < 1e-6 * wanted, "the bound", slow)


def several_links(folder, draw):
    """Several connections between two hosts, which are measured together."""
    with Site(folder, 2) as site:
        for host in site.network.hosts:
            site.network.ip(host, "addr", "add", f"10.78.0.{host + 1}/24", "dev", "net0")
        result = json.loads(site.doctor("-o", "json", "--links", "3").stdout)
        check(result["ok"] and result["connections"] == 3, "connections", result)
        for link in result["links"]:
            others = [address["address"] for address in link["more_addresses"]]
            check(others == [link["to"].replace("10.77.", "10.78.")], "not by both", link)
            check(link["bytes_per_s"] > 0, "bandwidth", link)
        done = site.doctor("--links", "3")
        check(" over 3 connections." in done.stdout, "it does not say of how many", done.stdout)


def cannot_connect(folder, draw):
    """Who cannot reach whom, on which address, and what came back."""
    with Site(folder, 3) as site:
        a, b, c = (site.network.address(host) for host in site.network.hosts)
        site.network.refuse_between([1], [2])
        done = site.doctor(code=1)
        for one, other in ((b, c), (c, b)):
            check(f"!!  {one} cannot connect to {other}: {other} port " in done.stdout and
                  "(net0): no route to it" in done.stdout, "it does not say why", done.stdout)
        check(f"cannot connect to {a}" not in done.stdout, "others cannot connect", done.stdout)
        done = site.doctor(code=1, names=[a, "10.77.0.9"])
        check("!!  10.77.0.9: ssh: no such host" in done.stdout, "a host is not named", done.stdout)
        done = site.doctor("--interface", "net9", code=1)
        check(f"!!  {a}: network interface net9: not found" in done.stdout, "net9", done.stdout)


def interrupted(folder, draw):
    """Ctrl-C, and nothing runs anywhere."""
    with Site(folder, 3) as site:
        process = folder.start(site.words(), {"ADAPTDL_SSH": site.client}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        wait_until(lambda: len(carriers(MARK, folder.path)) >= 2, "probes")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.wait(60)
        wait_until(lambda: not carriers(MARK, folder.path), "the end of all probes")


main(measures, several_links, cannot_connect, interrupted)
