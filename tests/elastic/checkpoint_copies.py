"""Hosts that share no checkpoint folder: each checkpoint is on two of them, so that the newest
outlives any host, and a run begins from the newest that any of its hosts has."""

import os
import shutil
import signal

from support import Site, ask, check, kill, main, wait_until, worker_of

INTERVAL = 1  # s
OFTEN = ("--set", "epochs=1000000", "--set", f"checkpoint_interval_s={INTERVAL}")
SLACK = 10  # s; a loaded machine may write late


def steps_on(site, host):
    """Of the checkpoints there, the newest first."""
    folder = site.folder.file(f"host-{host}")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted((int(name[5:]) for name in names if name.startswith("step-")), reverse=True)


def start(site, hosts, *words):
    """On each of them; in this order they join. Host 0 leads, and has rank 0."""
    nodes = f"1:{hosts}"
    runs = [site.run(0, nodes, *OFTEN, *words)]
    site.share_key()
    for host in range(1, hosts):
        runs.append(site.run(host, nodes, *OFTEN, *words))
        runs[0].wait_replicas(host + 1)
    return runs


def newest(run):
    """The copy of a checkpoint may be told of before the checkpoint is."""
    return run.wait_for(lambda events: [e["step"] for e in events if e["event"] == "checkpoint" and
                                        "error" not in e], "a checkpoint")[-1]


def copied_since(site, run, step, host):
    wait_until(lambda: max(steps_on(site, host), default=0) > step,
               "a newer checkpoint on the other host", tell=run.story)


def step_before(run, seconds):
    """The newest that was finished so long before the last one."""
    steps = run.of("step")
    until = steps[-1]["time_s"] - seconds
    return max((event["step"] for event in steps if event["time_s"] < until), default=0)


def lose(site, runs, host):
    """The host with its folder, and the replicas of all others at the same time."""
    others = [worker_of(run) for at, run in enumerate(runs) if at != host]
    lost = [runs[host].process.pid, worker_of(runs[host])]
    for pid in (*lost, *others):
        kill(pid)
    shutil.rmtree(site.folder.file(f"host-{host}"))


def copying_host_lost(folder, draw):
    """Another host gets a copy at once, not only when the next checkpoint is due."""
    with Site(folder, 3, apart=True) as site:
        runs = start(site, 3, "--set", "checkpoint_interval_s=1000")
        wait_until(lambda: steps_on(site, 1), "a copy", tell=runs[0].story)
        check(not steps_on(site, 2), "two copies")
        for pid in (runs[1].process.pid, worker_of(runs[1])):
            kill(pid)
        lost = runs[0].last_step()
        copied_since(site, runs[0], lost, 2)
        wait_until(lambda: steps_on(site, 0)[0] == steps_on(site, 2)[0],  # written at once
                   "the same step on both", tell=runs[0].story)
        end(runs[0])
        check(runs[2].end() == 143, "a host of a stopped run")


def states(site):
    socket = site.folder.file("runtime-0", "adaptdl", "runs", "slow.sock")
    return [member["state"] for member in ask(socket, request="status")["members"]]


def end(*runs):
    for run in runs:
        run.signal(signal.SIGTERM)
    for run in runs:
        check(run.end() == 143, "a host that was told to go", run.said()[-500:])


def lost_with_its_folder(folder, draw):
    """The leading host is lost for good, and with it all replicas: the others go on from the copy
    that one of them has, and then keep a copy again."""
    with Site(folder, 3, apart=True) as site:
        runs = start(site, 3)
        runs[0].says("has a copy of the checkpoint of step")
        copied_since(site, runs[0], newest(runs[0]), 1)
        runs[0].wait_steps_more(20)
        least = max(step_before(runs[0], INTERVAL + SLACK), steps_on(site, 1)[0])
        lose(site, runs, 0)
        runs[1].says("this host leads the run now; 2 of 3 hosts go on")
        resumed = runs[1].wait_event("resume")
        check(resumed["step"] >= least, "from an old checkpoint", resumed, least)
        runs[1].wait_replicas(2)
        runs[1].wait_steps_more(5)
        steps = [event["step"] for event in runs[1].of("step")]
        check(steps == list(range(resumed["step"] + 1, resumed["step"] + 1 + len(steps))),
              "steps are lost, or come twice", resumed, steps)
        for host in (1, 2):
            copied_since(site, runs[1], resumed["step"] + 1, host)
        end(*runs[1:])


def typed_again(folder, draw):
    """A run was stopped on all hosts, and the leading one has lost its folder since: the same
    commands go on where they stopped. A host that comes late with a newer checkpoint than that of
    the run keeps it, and the next start goes on from it."""
    with Site(folder, 2, apart=True) as site:
        runs = start(site, 2)
        runs[0].wait_steps_more(300)  # more than the short run below can make meanwhile
        end(runs[0])
        check(runs[1].end() == 143, "a host of a stopped run")
        last = runs[0].last_step()
        check(steps_on(site, 1)[0] == last, "no copy of the last checkpoint", steps_on(site, 1))

        shutil.rmtree(folder.file("host-0"))
        runs = [site.run(host, "2", *OFTEN) for host in (0, 1)]
        resumed = runs[0].wait_event("resume")
        there = f":{folder.file('host-1')}/step-{last:012}"
        check(resumed["step"] == last and resumed["path"].endswith(there), "elsewhere", resumed)
        runs[0].wait_steps_more(5)
        end(runs[0])
        check(runs[1].end() == 143, "a host of a stopped run")
        last = runs[0].last_step()

        shutil.rmtree(folder.file("host-0"))
        runs = [site.run(0, "1:2", *OFTEN)]
        runs[0].wait_event("step")
        kill(worker_of(runs[0]), signal.SIGSTOP)
        runs.append(site.run(1, "1:2", *OFTEN))
        wait_until(lambda: "ready" in states(site), "a replica of the late host")
        kill(worker_of(runs[0]), signal.SIGCONT)
        runs[0].says(f"has one of step {last} of run slow, from which this run has not gone on")
        check(not runs[0].of("resume"), "it has begun from nothing")
        runs[0].signal(signal.SIGKILL)
        runs[1].says("lost the connection to the launcher")
        kill(runs[1].process.pid)
        check(steps_on(site, 1)[0] == last, "it is not kept", steps_on(site, 1))
        check(runs[0].last_step() < last, "the short run is too long", last)
        runs = [site.run(host, "2", *OFTEN) for host in (0, 1)]
        check(runs[0].wait_event("resume")["step"] == last, "the next start goes on elsewhere")
        end(runs[0])
        check(runs[1].end() == 143, "a host of a stopped run")


def fresh_on_all(folder, draw):
    """--fresh on the leading host begins from nothing, whatever the others have, and also if all
    replicas die; what they have makes place for copies."""
    with Site(folder, 2, apart=True) as site:
        runs = start(site, 2)
        runs[0].wait_steps_more(300)  # more than the fresh run makes until its first checkpoint
        end(runs[0])
        check(runs[1].end() == 143, "a host of a stopped run")
        before = steps_on(site, 1)[0]

        runs = [site.run(0, "2", *OFTEN, "--fresh", "--max-restarts", "9"),
                site.run(1, "2", *OFTEN)]
        runs[0].says("has a copy of the checkpoint of step")
        check(steps_on(site, 1)[0] < before, "an old one is left", steps_on(site, 1))
        check(not runs[0].of("resume"), "from an old checkpoint")
        for run in reversed(runs):
            kill(worker_of(run))
        resumed = runs[0].wait_event("resume")
        check(resumed["step"] < before, "from an old checkpoint", resumed, before)
        runs[0].wait_steps_more(3)
        end(runs[0])
        check(runs[1].end() == 143, "a host of a stopped run")


def written(pid):
    """Bytes that a process has written to files."""
    with open(f"/proc/{pid}/io") as file:
        return int(next(line for line in file if line.startswith("wchar:")).split()[1])


def shared_once(folder, draw):
    """Where hosts share the folder, each checkpoint is written once."""
    with Site(folder, 2) as site:
        runs = start(site, 2)
        runs[0].wait_event("checkpoint")
        first, other = (worker_of(run) for run in runs)
        before, seen = [written(first), written(other)], len(runs[0].of("checkpoint"))
        # Of the first one a part may have been written before that.
        runs[0].wait_for(lambda events: sum(e["event"] == "checkpoint" for e in events) >= seen + 4,
                         "four more checkpoints")
        size = runs[0].of("checkpoint")[0]["bytes"]
        grown = [written(first) - before[0], written(other) - before[1]]
        check(grown[0] >= 3 * size, "too little is written", grown, size)
        check(grown[1] < size, "the other host writes, too", grown, size)
        check("has a copy" not in runs[0].said(), "it says so")
        runs[0].request(request="cancel")
        check(runs[0].end() == 143 and runs[1].end() == 143, "hosts of a cancelled run")


main(lost_with_its_folder, copying_host_lost, typed_again, fresh_on_all, shared_once)
