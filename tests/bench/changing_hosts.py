#!/usr/bin/env python3
"""How long a run on several hosts stands still when it loses one of three, the leading one or
another, and when a third one comes. Each host is a network namespace; all share a folder. By hand,
as root, with iproute2.

Usage: changing_hosts.py BINARY PROGRAMS [--times 10] [--host-timeout 1]
PROGRAMS: as for tests/elastic (build/tests/elastic/programs). A host is lost in two ways: its
processes are killed, or its network falls silent, as when its power fails. Prints one line of JSON
for each: seconds from then to the next finished step, and how many steps that had been finished
were finished again. Then one for a host that comes, with a state of 100 MB: seconds for which the
others stand still (a rescale's pause_s), of which the transfer of the state took transfer_s.
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from support import Folder, Site, end_by_sigterm, kill


def lost(folder, leads, silent, timeout):
    """Seconds, and steps that were done again."""
    with Site(folder, 3) as site:
        words = ("1:3", "--set", "epochs=1000000", "--host-timeout", str(timeout))
        runs = [site.run(0, *words)]
        site.share_key()
        for host in (1, 2):
            runs.append(site.run(host, *words))
            runs[0].wait_replicas(host + 1)
        runs[0].wait_steps_more(20)
        gone = 0 if leads else 2
        tells = runs[1] if leads else runs[0]
        begun = time.monotonic()
        seen = tells.count()
        if silent:
            site.network.fail_between([gone], [host for host in range(3) if host != gone], cut=True)
        if not silent or leads:  # a lock of this file system ends with its owner only
            kill(runs[gone].process.pid)
        step = runs[0].last_step()
        tells.wait_event("generation", after=seen, cause="death")
        tells.wait_for(lambda events: any(e["event"] == "step" and e["step"] > step
                                          for e in events[seen:]), "a step")
        took = time.monotonic() - begun
        first = next(e["step"] for e in tells.events[seen:] if e["event"] == "step")
        for run in runs:
            if run.process.poll() is None:
                kill(run.process.pid)
        return took, max(0, step + 1 - first)


def joined(folder):
    """The rescale that a third host caused."""
    with Site(folder, 3) as site:
        words = ("1:3", "--set", "epochs=1000000", "--set", "batch.initial=12")
        runs = [site.run(0, *words, program="large")]
        site.share_key()
        runs.append(site.run(1, *words, program="large"))
        runs[0].wait_replicas(2)
        runs[0].wait_steps_more(3)
        seen = runs[0].count()
        runs.append(site.run(2, *words, program="large"))
        event = runs[0].wait_event("rescale", after=seen, to=3)
        for run in runs:
            kill(run.process.pid)
        return event


def figure(values):
    return {"median": round(statistics.median(values), 3), "worst": round(max(values), 3)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("programs")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--host-timeout", type=int, default=1)
    options = parser.parse_args()
    end_by_sigterm()
    for silent in (False, True):
        for leads in (True, False):
            results = []
            for _ in range(options.times):
                with Folder(*map(os.path.abspath, (options.binary, options.programs))) as folder:
                    results.append(lost(folder, leads, silent, options.host_timeout))
            seconds = [took for took, _ in results]
            print(json.dumps({
                "lost": "leading host" if leads else "another host",
                "how": "silent" if silent else "killed",
                "median_s": round(statistics.median(seconds), 3),
                "worst_s": round(max(seconds), 3),
                "steps_again": sum(again for _, again in results)}), flush=True)
    events = []
    for _ in range(options.times):
        with Folder(*map(os.path.abspath, (options.binary, options.programs))) as folder:
            events.append(joined(folder))
    print(json.dumps({
        "joined": "a third host", "bytes": events[0]["bytes"],
        "pause_s": figure([e["pause_s"] for e in events]),
        "transfer_s": figure([e["transfer_s"] for e in events]),
        "pause_without_transfer_s": figure([e["pause_s"] - e["transfer_s"] for e in events])}))


main()
