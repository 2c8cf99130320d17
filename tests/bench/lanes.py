"""Ten jobs on one machine, once under the default policy and once under `fixed`:

    lanes.py BUILD real|stretched [--only POLICY] [--data DIR] [--jobs N] [--seed N] [--simulate]

Prints a table for each policy and the sums; fails only if a job does not finish. BUILD is
configured with Torch, and has adaptdl, tests/elastic/elastic_archives and
tests/adaptdl-test-worker built.

real: 2 slots, of a core and a thread each; the examples of `adaptdl init` in several lengths.

stretched: 8 slots. Programs compute almost nothing; their step times come from measurements
published with Pollux (lanes_profiles.py; DIR, or data/osdi21 in $ADAPTDL_TEST_DATA). Afterwards
`adaptdl simulate` simulates the same jobs under each policy and compares the mean completion time.
It uses the mean pause of rescales and the mean start time of new replicas measured under that
policy (many starts at once take longer on few cores). --simulate: only the simulation, with starts
of 3 s.

Arrivals and lengths are random, from the seed: gaps are exponential; of ten jobs five are short,
three medium and two long, in random order, with uniformly drawn lengths.

`fixed` gives what users request, by this rule, which was fixed before any measurement. Stretched:
the largest of 1, 2, 4 and 8 replicas with which a job, with its best batch, has 0.8 of the ideal
speedup in its profile. The published workloads assumed sensible requests between 0.5 and 0.8; 0.8
is the frugal end, because larger requests wait longer and make others wait. Real: one replica, as
the programs were written for a single process. Nothing else differs: under both policies jobs
choose their batch.
"""

import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from lanes_profiles import APPLICATIONS, read_applications
from support import (ENDED, LIVE_JOBS, Folder, check, end_by_sigterm, json_lines, service,
                     wait_until)

DEFAULT = "proportional"
POLICIES = (DEFAULT, "fixed")
INTERVAL_S = 10        # between rounds without events: the service's default
PATIENCE_S = 1800
# name -> share of the jobs, shortest, longest
LENGTHS = {"short": (0.5, 30, 80), "medium": (0.3, 150, 300), "long": (0.2, 450, 750)}
# Epochs that take about this many seconds on one idle core.
REAL_EPOCHS_PER_S = {"digits": 6.0, "chars": 0.25, "linear": 30.0}


class Job:
    """A job of a lane: `submitted_s` after the lane's start; takes `alone_s` on one replica."""

    def __init__(self, name, kind, submitted_s, alone_s):
        self.name, self.kind = name, kind
        self.submitted_s, self.alone_s = submitted_s, alone_s


def draw_jobs(kinds, count, gap_s, seed, scale):
    draw = random.Random(seed)
    lengths = []
    for share, low, high in LENGTHS.values():
        lengths += [scale * draw.uniform(low, high) for _ in range(round(share * count))]
    lengths = (lengths + lengths[:count])[:count]
    draw.shuffle(lengths)
    names = [kinds[i % len(kinds)] for i in range(count)]
    draw.shuffle(names)
    jobs, at = [], 0.0
    for i, (kind, length) in enumerate(zip(names, lengths)):
        jobs.append(Job(f"{kind}-{i}", kind, at, length))
        at += draw.expovariate(1 / gap_s)
    return jobs


def run_lane(folder, policy, slots, jobs, submit):
    """Runs the jobs. Returns {job name: its row}."""
    with service(folder, "--slots", str(slots), "--policy", policy) as local:
        begun = time.time()
        for job in jobs:
            time.sleep(max(0, begun + job.submitted_s - time.time()))  # until it arrives
            submit(local, job)
        wait_until(lambda: not local.query(LIVE_JOBS), "the end of all jobs", PATIENCE_S, every=0.5)
        return {job.name: row_of(local, job.name, begun) for job in jobs}


def row_of(local, name, begun):
    job = local.job(name)
    check(job["phase"] in ENDED, f"{name}: {job['phase']}")
    changes = [(event["time_s"] - begun, event["message"].split(":")[0].split("-> ")[1])
               for event in local.query("SELECT * FROM events WHERE job=? AND kind='Scheduled' "
                                        "ORDER BY id", name)]
    events = local.run_events(name)
    return {"submitted": job["submitted_s"] - begun, "started": job["started_s"] - begun,
            "completed": job["ended_s"] - begun, "jct": job["ended_s"] - job["submitted_s"],
            "replicas": changes, "starts": job["starts"], "phase": job["phase"],
            "slot_s": job["service_s"],
            "pauses": [event["pause_s"] for event in events if event["event"] == "rescale"],
            "starts_s": start_times(events, changes, begun),
            "message": job["message"]}


def start_times(events, changes, begun):
    """Seconds until added replicas took part, in starts and in rescales to more replicas."""
    times, started = [], 0.0
    for event in events:
        if event["event"] == "start":
            started = datetime.datetime.fromisoformat(event["started"]).timestamp() - begun
        if event["event"] != "generation" or event["to"] <= event["from"]:
            continue
        at = started + event["time_s"]
        given = [time for time, count in changes if time < at and int(count) == event["to"]]
        if event["from"] == 0:
            times.append(event["time_s"])
        elif given:
            times.append(at - given[-1])
    return times


def print_lane(policy, rows):
    print(f"\n{policy}:")
    print(f"{'JOB':15} {'SUBMITTED':>9} {'STARTED':>8} {'COMPLETED':>9} {'JCT s':>7} {'SLOT s':>7} "
          f"{'STARTS':>6} {'RESCALES':>8}  REPLICAS, from s on")
    for name, row in rows.items():
        replicas = " ".join(f"{count}@{at:.0f}" for at, count in row["replicas"])
        why = "" if row["phase"] == "Succeeded" else f"  {row['phase']}: {row['message']}"
        print(f"{name:15} {row['submitted']:9.1f} {row['started']:8.1f} {row['completed']:9.1f} "
              f"{row['jct']:7.1f} {row['slot_s']:7.0f} {row['starts']:6} {len(row['pauses']):8}  "
              f"{replicas}{why}")
    jct = [row["jct"] for row in rows.values()]
    print(f"{'sum':15} {'':9} {'':8} {max(row['completed'] for row in rows.values()):9.1f} "
          f"{sum(jct):7.1f} {sum(row['slot_s'] for row in rows.values()):7.0f} "
          f"{sum(row['starts'] for row in rows.values()):6} "
          f"{sum(len(row['pauses']) for row in rows.values()):8}  "
          f"mean JCT {statistics.mean(jct):.1f} s",
          flush=True)


def compare(results):
    if len(results) < 2:
        return
    mine, other = (sum(row["jct"] for row in results[policy].values()) for policy in POLICIES)
    print(f"\nsum of completion times: {DEFAULT} {mine:.0f} s, fixed {other:.0f} s: "
          f"{(1 - mine / other) * 100:+.1f} % saved")


def real(options):
    jobs = draw_jobs(("digits", "chars", "linear"), options.jobs, 4, options.seed, 0.1)
    results = {}
    for policy in options.policies:
        with Folder(options.adaptdl) as folder:
            for kind in REAL_EPOCHS_PER_S:
                code, _, said = folder.command("init", kind, folder.file(kind))
                check(code == 0, said)

            def submit(local, job):
                epochs = max(1, round(job.alone_s * REAL_EPOCHS_PER_S[job.kind]))
                local.submit(folder.file(job.kind, "train.pt"), name=job.name,
                             settings=[f"epochs={epochs}"], max_replicas=2, requested_replicas=1)

            results[policy] = run_lane(folder, policy, 2, jobs, submit)
            folder.check_nothing_left()
        print_lane(policy, results[policy])
    compare(results)
    return results


def write_archives(options, applications, folder):
    description = folder.write("archives.json", json.dumps(
        [it.archive(folder.file(name + ".pt")) for name, it in applications.items()]))
    subprocess.run([os.path.join(options.build, "tests/elastic/elastic_archives"), description],
                   check=True)


def stretched(options):
    applications = read_applications(options.data)
    jobs = draw_jobs(APPLICATIONS, options.jobs, 10, options.seed, 1)
    results = {}
    for policy in () if options.simulate else options.policies:
        with Folder(options.adaptdl) as folder:
            write_archives(options, applications, folder)
            for name, it in applications.items():
                folder.write(name + ".yaml", it.profile(1, 0, 0))

            def submit(local, job):
                it = applications[job.kind]
                variables = {"ADAPTDL_TEST_STRETCH": folder.file(job.kind + ".yaml"),
                             "ADAPTDL_WORKER": os.path.join(options.build,
                                                            "tests/adaptdl-test-worker"),
                             "OMP_NUM_THREADS": "1"}
                local.submit(folder.file(job.kind + ".pt"), name=job.name,
                             settings=[f"epochs={it.epochs(job.alone_s)}"], max_replicas=8,
                             requested_replicas=it.asks(), environment=variables)

            results[policy] = run_lane(folder, policy, 8, jobs, submit)
            folder.check_nothing_left()
        print_lane(policy, results[policy])
    compare(results)
    for policy in options.policies:
        with Folder(options.adaptdl) as folder:
            simulate(options, applications, jobs, folder, policy, results.get(policy))
    return results


def measured(rows, what, otherwise):
    values = [value for row in (rows or {}).values() for value in row[what]]
    return statistics.mean(values) if values else otherwise


def simulate(options, applications, jobs, folder, policy, rows):
    """Runs the same jobs in `adaptdl simulate`, with a profile per job because lengths differ."""
    costs = (measured(rows, "pauses", 0.01), measured(rows, "starts_s", 3.0))
    lines = ["jobs:\n"]
    for job in jobs:
        it = applications[job.kind]
        folder.write(f"profiles/{job.name}.yaml", it.profile(it.epochs(job.alone_s), *costs))
        lines.append(f"  - {{name: {job.name}, application: {job.name}, submitted_s: "
                     f"{job.submitted_s:.3f}, replicas: {it.asks()}, "
                     f"batch_size: {it.best[it.asks()][1]}, max_replicas: 8}}\n")
    workload = folder.write("workload.yaml", "".join(lines))
    timeline = folder.file("timeline.jsonl")
    code, said, errors = folder.command(
        "simulate", "--profiles", folder.file("profiles"), "--workload", workload, "--nodes", "1",
        "--gpus-per-node", "8", "--policy", policy, "--interval", str(INTERVAL_S),
        "--event-gap", "1", "--rescale-cost", "measured", "--lengths", "known", "-o", "json",
        "--timeline", timeline)
    check(code == 0, errors)
    replicas = {}
    for event in json_lines(timeline):
        if event["event"] == "allocate":
            replicas.setdefault(event["job"], []).append(
                f"{len(event['gpus'])}@{event['time_s']:.0f}")
    run = json.loads(said)
    mean = run["summary"]["avg_jct_s"]
    print(f"\n{policy}, simulated with pauses of {costs[0]:.2f} s, starts of {costs[1]:.1f} s:")
    for job in run["jobs"]:
        beside = f" of {rows[job['name']]['jct']:7.1f}" if rows else ""
        print(f"{job['name']:15} {job['started_s']:8.1f} {job['completed_s']:9.1f} "
              f"{job['jct_s']:7.1f}{beside}  {' '.join(replicas[job['name']])}")
    line = f"mean JCT {mean:.1f} s, sum {mean * len(jobs):.0f} s"
    if rows:
        was = statistics.mean(row["jct"] for row in rows.values())
        line += f"; measured {was:.1f} s: {(mean / was - 1) * 100:+.1f} %"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("lane", choices=("real", "stretched"))
    parser.add_argument("--only", choices=POLICIES, help="one policy")
    parser.add_argument("--data", default=os.path.join(
        os.environ.get("ADAPTDL_TEST_DATA", "/nowhere"), "data/osdi21"), help="measurements")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--simulate", action="store_true", help="nothing real")
    options = parser.parse_args()
    end_by_sigterm()
    options.build = os.path.abspath(options.build)
    options.adaptdl = os.path.join(options.build, "adaptdl")
    options.policies = (options.only,) if options.only else POLICIES
    if options.lane == "stretched" and not os.path.isdir(os.path.join(options.data, "profiles")):
        parser.error(f"{options.data} has no profiles: name another folder with --data")
    results = {"real": real, "stretched": stretched}[options.lane](options)
    return any(row["phase"] != "Succeeded" for rows in results.values() for row in rows.values())


if __name__ == "__main__":
    sys.exit(main())
