#!/usr/bin/env python3
"""All-reduce between hosts beside gloo's: each host is a network namespace with a link of its own,
which token buckets (tc tbf) limit in both directions. By hand, as root, with iproute2.

Usage: hosts.py BENCH_ALLREDUCE [PYTHON] [--hosts 2,4,8] [--rate 1gbit] [--plain] [--rounds 3]
                [--congestion reno] [--links N] [--networks N]
PYTHON can import torch; without it there is no gloo. --rate none: no limit; RATE,RATE...:
of the first network, the second one, and so on, of which --networks says how many there are; gloo
uses the first. --congestion: TCP's, instead of the system's. --links: connections of ours between
two hosts. Prints one line of JSON for each size: ms: medians of all rounds, which
take turns. bound: the time that 2 (n - 1) / n of the data need on a host's links, divided by the
time taken. sent: bytes that left the host of rank 0, headers included, divided by that part of the
data. Of more than 30 hosts each knows the addresses of all others, for which
net.ipv4.neigh.default.gc_thresh1 to 3 must be raised.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from support import Processes, check, end_by_sigterm, run_command

SIZES = {4 << 10: 200, 1 << 20: 20, 100 << 20: 3}
GLOO = """
import datetime, json, os, statistics, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
for size, count in json.loads(os.environ["SIZES"]).items():
    data, times = torch.ones(int(size) // 4), []
    for i in range(count + 2):
        dist.barrier()
        begun = time.monotonic()
        dist.all_reduce(data)
        times.append((time.monotonic() - begun) * 1e3)
    if dist.get_rank() == 0:
        print(json.dumps({"bytes": int(size), "ms": statistics.median(times[2:])}), flush=True)
"""


class Hosts:
    """Namespaces whose links meet at a bridge in a namespace of its own, one of each network."""

    def __init__(self, count, rates, congestion=None):
        self.names = [f"adaptdl-bench-{os.getpid()}-{i}" for i in range(count)]
        self.bridge = f"adaptdl-bench-{os.getpid()}-bridge"
        try:
            self.make(rates, congestion)
        except BaseException:
            self.__exit__()
            raise

    def make(self, rates, congestion):
        for name in (self.bridge, *self.names):
            run_command(["ip", "netns", "add", name], 0)
        for name in self.names:
            self.ip("-n", name, "link", "set", "lo", "up")
            if congestion:
                run_command(["ip", "netns", "exec", name, "sysctl", "-q", "-w",
                             f"net.ipv4.tcp_congestion_control={congestion}"], 0)
        for number, rate in enumerate(rates):
            self.make_network(number, rate)

    def make_network(self, number, rate):
        bridge = f"bridge{number}"
        self.ip("-n", self.bridge, "link", "add", bridge, "type", "bridge")
        self.ip("-n", self.bridge, "link", "set", bridge, "up")
        for i, name in enumerate(self.names):
            port, there = f"port{number}.{i}", f"eth{number}"
            self.ip("-n", self.bridge, "link", "add", port, "type", "veth", "peer", "name", there,
                    "netns", name)
            self.ip("-n", self.bridge, "link", "set", port, "master", bridge, "up")
            self.ip("-n", name, "address", "add", f"10.78.{number}.{i + 1}/24", "dev", there)
            self.ip("-n", name, "link", "set", there, "up")
            if rate != "none":
                for space, device in ((self.bridge, port), (name, there)):
                    run_command(["tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf",
                                 "rate", rate, "burst", "256kb", "latency", "50ms"], 0)

    @staticmethod
    def ip(*words):
        run_command(["ip", *words], 0)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for name in (self.bridge, *self.names):
            run_command(["ip", "netns", "delete", name])

    def ours(self, program, links, plain):
        words = [program, "--quick", "--links", str(links),
                 "--networks", ",".join(f"/run/netns/{n}" for n in self.names)]
        done = run_command(words + (["--plain"] if plain else []), 0, timeout=600)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {line["bytes"]: line for line in lines if line["name"] == "allreduce"}

    def gloo(self, python):
        processes = Processes()
        try:
            return self.all_reduce_of(python, processes)
        finally:
            processes.close()

    def all_reduce_of(self, python, processes):
        for rank, name in enumerate(self.names):
            environment = os.environ | {
                "RANK": str(rank), "WORLD_SIZE": str(len(self.names)), "MASTER_ADDR": "10.78.0.1",
                "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0", "SIZES": json.dumps(SIZES)}
            processes.start(["ip", "netns", "exec", name, python, "-c", GLOO], env=environment,
                            stdout=subprocess.PIPE if rank == 0 else None)
        out = processes.children[0].communicate(timeout=600)[0].decode()
        codes = [process.wait() for process in processes.children]
        # PyTorch may abort while it exits, after all has been measured.
        if any(codes):
            print(f"gloo's processes ended with {codes}", file=sys.stderr)
        found = {line["bytes"]: line["ms"] for line in map(json.loads, out.splitlines())}
        check(found.keys() == SIZES.keys(), f"gloo measured only {list(found)}; exit codes {codes}")
        return found


def bits_per_s(rate):
    units = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
    return next(float(rate.removesuffix(unit)) * factor for unit, factor in units.items()
                if rate.endswith(unit))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("python", nargs="?")
    parser.add_argument("--hosts", default="2,4,8")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--congestion")
    parser.add_argument("--links", type=int, default=1)
    parser.add_argument("--networks", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates = options.rate.split(",")
    rates += rates[-1:] * (options.networks - len(rates))
    for count in map(int, options.hosts.split(",")):
        with Hosts(count, rates, options.congestion) as hosts:
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(hosts.ours(options.program, options.links, options.plain))
                if options.python:
                    theirs.append(hosts.gloo(options.python))
            for size in SIZES:
                mine = statistics.median(each[size]["median"] for each in ours)
                sent = statistics.median(each[size]["sent_fraction"] for each in ours)
                line = {"hosts": count, "rate": options.rate, "bytes": size, "ms": mine,
                        "sent": sent}
                least = 0.0
                if "none" not in rates:
                    least = 2 * (count - 1) / count * size * 8 / sum(map(bits_per_s, rates)) * 1e3
                    line["bound"] = round(least / mine, 3)
                if theirs:
                    gloo = statistics.median(each[size] for each in theirs)
                    line |= {"gloo_ms": round(gloo, 3), "gloo_over_ours": round(gloo / mine, 3)}
                    if least:
                        line["gloo_bound"] = round(least / gloo, 3)
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    end_by_sigterm()
    main()
