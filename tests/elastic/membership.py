"""Replicas that leave on request, new replicas that never join, and commands that change a run."""

import os
import signal
import time

from support import check, kill, main, read, wait_until


def sigterm_to_one(folder, draw):
    """A replica leaves at a step on SIGTERM; the bounds require another, which joins."""
    run = folder.run(folder.program("slow"), "--replicas", "2:3", "--set", "epochs=1000000")
    run.wait_replicas(3)
    run.wait_step(5)
    for rank in (1, 0):
        seen = run.count()
        leaver = list(run.members().items())[rank]
        check(kill(leaver[1], signal.SIGTERM), "nobody there to be told")
        left = run.wait_for(lambda events: next(
            (e for e in events[seen:] if e["event"] == "generation"
             and leaver[0] not in e["members"]), None), "a generation without it")
        check(not left["immediate"], "a leave broke the generation")
        run.wait_for(lambda events: any(
            e["event"] == "generation" and e["to"] == 3 and leaver[0] not in e["members"]
            for e in events[seen:]), "a replacement")
        run.wait_steps_more(3)
    check(not run.of("failure"), "a leave counts as a failure")
    run.request(request="scale", replicas=1)
    run.wait_replicas(1)
    run.wait_steps_more(20)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def everybody_leaves(folder, draw):
    """SIGTERM to the only replica: its successor continues at the same step."""
    run = folder.run(folder.program("slow"), "--replicas", "1", "--set", "epochs=8")
    run.wait_step(20)
    (pid,) = run.members().values()
    kill(pid, signal.SIGTERM)
    resumed = run.wait_event("resume")
    check(resumed["step"] >= 20, "steps were lost")
    run.expect_end(0, 200)
    run.check_steps(last=320)


def scale_and_cancel(folder, draw):
    """adaptdl scale and cancel, and a run that resumes after a cancel."""
    program = folder.program("slow")
    run = folder.run(program, "--replicas", "1:2", "--replicas-at", "0:1", "--name", "wish",
                     "--set", "epochs=1000")
    run.wait_step(5)
    check(run.of("generation")[0]["to"] == 1, "did not start with one")
    for size in (3, 2):  # beyond the initial bounds, and back
        seen = run.count()
        code, out, err = folder.command("scale", "wish", str(size))
        check(code == 0, f"scale: exit {code}: {out}{err}")
        run.wait_replicas(size, after=seen)
    # New replicas may have joined one by one, and the rescale from 1 to 2 is reported only now.
    rescale = run.wait_event("rescale", to=2, **{"from": 3})
    check(rescale["pause_s"] < 5, "the rescale event is odd", rescale)
    code, out, err = folder.command("ls", "-o", "json")
    check(code == 0 and "wish" in out, "ls does not show the run", out, err)
    for command in (["scale", "other", "2"], ["cancel", "other"]):
        code, out, err = folder.command(*command)
        check(code == 102 and "other" in err, f"{command}: exit {code}: {out}{err}")
    code, out, err = folder.command("cancel", "wish")
    check(code == 0, f"cancel: exit {code}: {out}{err}")
    run.expect_end(143)
    last = run.last_step()
    end = run.end_event()
    check(end["result"] == "cancelled" and end["checkpoint"], "not cancelled well", end)
    run.check_steps()
    again = folder.run(program, "--name", "wish", "--set", "epochs=1000")
    resumed = again.wait_event("resume")
    check(resumed["step"] == last, f"resumed at {resumed['step']}, not {last}")
    again.wait_step(last + 3)
    code, out, err = folder.command("cancel", "--now", "wish")
    check(code == 0, f"cancel --now: exit {code}: {out}{err}")
    again.expect_end(143)
    again.check_steps(last + 1)


def newcomer_stopped(folder, draw):
    """A new replica that hangs while it starts or connects delays nobody: the others keep training.
    When it dies, another replaces it."""
    held = folder.file("held")
    worker = folder.worker_after(f"while test -e '{held}'; do sleep 0.05; done")
    run = folder.run(folder.program("slow"), "--replicas", "1:2", "--replicas-at", "0:1",
                     "--set", "epochs=1000000", **worker)
    run.wait_step(5)
    folder.write("held")
    run.request(request="scale", replicas=2)
    pid = wait_until(lambda: next(iter(run.starting().values()), None), "a newcomer")
    kill(pid, signal.SIGSTOP)
    before = run.last_step()
    begun = time.monotonic()
    run.wait_step(before + 100)
    check(time.monotonic() - begun < 60, "training was held up")
    check(run.of("generation")[-1]["to"] == 1, "the stopped newcomer is a member")
    os.remove(held)
    kill(pid)
    run.wait_replicas(2)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def newcomers_always_die(folder, draw):
    """New replicas that always die are given up after a while; training is not affected."""
    deadly, deaths = folder.file("deadly"), folder.file("deaths")
    worker = folder.worker_after(f"test -e '{deadly}' && echo >> '{deaths}' && kill -9 $$")
    run = folder.run(folder.program("slow"), "--replicas", "1:2", "--replicas-at", "0:1",
                     "--max-restarts", "1", "--set", "epochs=1000000", **worker)
    run.wait_step(5)
    folder.write("deadly")
    run.request(request="scale", replicas=2)
    run.wait_for(lambda events: sum(e["event"] == "failure" for e in events) >= 2, "two deaths")
    wait_until(lambda: not run.starting(), "the newcomers to be given up")
    run.wait_steps_more(100)  # a second, or more
    check(not run.starting(), "newcomers are still started")
    check(len(run.of("generation")) == 1, "the members changed")
    os.remove(deadly)
    seen = run.count()
    run.request(request="scale", replicas=3)  # a new request is a new attempt
    run.wait_replicas(3, after=seen)
    run.signal(signal.SIGINT)
    run.expect_end(130)
    run.check_steps()
    signals = [event["signal"] for event in run.of("failure")]
    check(signals == [9] * len(read(deaths).splitlines()), "other failures", run.of("failure"))


main(sigterm_to_one, everybody_leaves, scale_and_cancel, newcomer_stopped, newcomers_always_die)
