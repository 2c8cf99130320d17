"""Stragglers: replicas that are much slower than the others are named, with evidence, and replaced
on request."""

import contextlib
import os
import signal
import socket
import threading

from support import Site, check, children_of, kill, main, wait_until, worker_of

STOPPED_S, RUNS_S = 0.4, 0.1
EVEN_S = 40
FOUR_WINDOWS_S = 14
LONG = 240  # s; MOST_STEPS of a loaded machine
NEVER = ("--set", "epochs=1000000")
MOST_STEPS = 1000  # windows of some seconds, of steps that take 10 ms


@contextlib.contextmanager
def slowed(pid):
    """Stops the process most of the time, as if others had its core."""
    over = threading.Event()

    def duty():
        with contextlib.suppress(ProcessLookupError):
            while not over.wait(RUNS_S):
                os.kill(pid, signal.SIGSTOP)
                over.wait(STOPPED_S)
                os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=duty)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def start(folder, replicas, *arguments):
    run = folder.run(folder.program("slow"), "--replicas", str(replicas), *NEVER, *arguments)
    run.wait_step(20)
    return run


def named_while_slow(folder, draw):
    """The right one is named, within seconds, and once; ls and the output show it. When it runs
    freely again, that is told, and the status forgets it."""
    run = start(folder, 3)
    victim, pid = draw.choice(list(run.members().items()))
    begun = run.last_step()
    with slowed(pid):
        told = run.wait_event("straggler", LONG)
        took = run.last_step() - begun
        check(told["state"] == "slow" and told["member"] == victim, f"not replica {victim}", told)
        check(told["factor"] > 1.5 and told["waited"] > 0.1, "odd evidence", told)
        check(abs(told["factor"] - told["sample_s"] / told["others_sample_s"]) < 1e-6,
              "its factor", told)
        print(f"    named after {took} steps, {told['factor']:.1f} times, waited "
              f"{told['waited']:.2f}", flush=True)
        check(took < MOST_STEPS, f"named after {took} steps only")
        status = run.request(request="status")
        check([s["member"] for s in status["stragglers"]] == [victim], "its status", status)
        code, out, err = folder.command("ls")
        check(code == 0 and f"3, no. {victim} slow" in out, "ls does not show it", out, err)
        run.says(f"replica {victim} is slow: ")
    over = run.wait_event("straggler", LONG, state="over")
    check(over["member"] == victim, "another one is over", over)
    run.says(f"replica {victim} is as fast as the others again")
    check(run.request(request="status")["stragglers"] == [], "its status")
    states = [e["state"] for e in run.of("straggler") if e["state"] != "changed"]
    check(states == ["slow", "over"], "told more", run.of("straggler"))
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def replaced(folder, draw):
    """With --replace-stragglers another replica takes its place, without losing a step, and the
    event tells what that brought. One that is as slow there is kept, and why is told."""
    run = start(folder, 3, "--replace-stragglers")
    victim, pid = draw.choice(list(run.members().items()))
    with slowed(pid):
        done = run.wait_event("straggler", LONG, state="replaced")
    check([e["state"] for e in run.of("straggler") if e["state"] != "changed"] ==
          ["slow", "replacing", "replaced"], "told otherwise", run.of("straggler"))
    check(done["member"] == victim and done["by"] == run.of("generation")[-1]["members"][-1],
          "others", done)
    print(f"    {done['samples_per_s_before']:.0f} -> {done['samples_per_s']:.0f} samples/s",
          flush=True)
    check(done["samples_per_s"] > 1.2 * done["samples_per_s_before"], "it did not help", done)
    check([e["to"] for e in run.of("generation")] == [3, 2, 3], "other generations",
          run.of("generation"))
    check(run.of("failure") == [], "a failure", run.of("failure"))
    with slowed(run.members()[done["by"]]):
        kept = run.wait_event("straggler", LONG, state="kept")
    check(kept["member"] == done["by"] and "no other slot is free" in kept["reason"],
          "an odd reason", kept)
    check(len(run.of("generation")) == 3, "replaced again", run.of("generation"))
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def on_another_host(folder, draw):
    """Of several hosts, one with a free slot gets the new replica."""
    with Site(folder, 2) as site:
        run = site.run(0, "2", "--replicas", "2", "--replace-stragglers", *NEVER)
        site.share_key()
        other = site.run(1, "2", "--replicas", "2", *NEVER)
        run.wait_replicas(4)
        run.request(request="scale", replicas=3)
        run.wait_size(3)
        wait_until(lambda: len(children_of(other.process.pid)) == 1, "the end of one")
        there = worker_of(other)
        run.wait_steps_more(20)
        victims = {member: pid for member, pid in run.members().items() if pid != there}
        victim, pid = draw.choice(list(victims.items()))
        with slowed(pid):
            done = run.wait_event("straggler", LONG, state="replaced")
        check(done["member"] == victim and done["host"] == socket.gethostname(), "another", done)
        pids = children_of(other.process.pid)
        check(run.members()[done["by"]] in pids, "not on the other host", pids, run.members())
        run.signal(signal.SIGTERM)
        run.expect_end(143)
        check(other.end() == 143, "a host of a stopped run")


def slow_network(folder, draw):
    """Of hosts with the same network none is named. A host whose network is slow in one direction
    is, and two hosts with a slow network between them; when it is as fast as the others again,
    that is told."""
    with Site(folder, 3) as site:
        runs = [site.run(0, "3", "--replicas", "2", program="wide")]
        site.share_key()
        runs += [site.run(host, "3", program="wide") for host in (1, 2)]
        run = runs[0]
        run.wait_step(1)
        begun = run.of("step")[0]["time_s"]
        run.wait_for(lambda events: events[-1]["time_s"] > begun + FOUR_WINDOWS_S, "four windows")
        check(run.of("slow_link") == [], "one is named without cause", run.of("slow_link"))
        host = draw.choice((0, 1, 2))
        others = [other for other in (0, 1, 2) if other != host]
        for ends in ([host], others), (others[:1], others[1:]):
            seen = len(run.of("slow_link"))
            site.network.fail(*ends, rate=400_000)
            news = run.wait_for(lambda events: [e for e in events if e["event"] == "slow_link"][
                seen:], "a slow network", LONG)
            told = news[0]
            print(f"    {told['bytes_per_s'] / 1e6:.1f} of {told['others_bytes_per_s'] / 1e6:.0f} "
                  f"MB/s, waited {told['waited']:.2f}", flush=True)
            check(told["state"] == "slow" and told["waited"] > 0.1, "odd evidence", told)
            check(told["bytes_per_s"] < 1_000_000 < told["others_bytes_per_s"], "odd rates", told)
            whole = told["peer"] is None
            check(whole == (len(ends[1]) == 2), "a host for a connection, or the other way", told)
            status = run.request(request="status")
            check([s["member"] for s in status["slow_links"]] == [told["member"]], "its status",
                  status)
            code, out, err = folder.command("ls")
            check(code == 0 and "4, slow network" in out, "ls does not show it", out, err)
            run.says(f"the network {'of' if whole else 'between'} {told['host']}")
            site.network.heal()
            run.wait_event("slow_link", LONG, state="over", member=told["member"],
                           peer=told["peer"])
        check(run.of("straggler") == [], "a replica is named", run.of("straggler"))
        run.signal(signal.SIGTERM)
        run.expect_end(143)
        for other in runs[1:]:
            check(other.end() == 143, "a host of a stopped run")


def nobody_among_equals(folder, draw):
    """More replicas than cores, batches that end early, rescales and a death: nobody is named."""
    run = start(folder, 4)
    run.request(request="scale", replicas=3)
    run.wait_size(3)
    kill(list(run.members().values())[-1])
    run.wait_size(3)
    run.request(request="scale", replicas=4)
    run.wait_size(4)
    begun = run.of("generation")[-1]["time_s"]
    run.wait_for(lambda events: events[-1]["time_s"] > begun + EVEN_S, f"{EVEN_S} s more", 200)
    check(run.of("straggler") == [], "somebody is named", run.of("straggler"))
    run.signal(signal.SIGTERM)
    run.expect_end(143)


main(named_while_slow, replaced, on_another_host, slow_network, nobody_among_equals)
