"""Runs that end early and resume: signals, kills, damaged checkpoints."""

import os
import re
import signal
import time

from support import check, kill, logs_below, main, wait_until

OFTEN = ["--set", "checkpoint_interval_s=0.5"]


def stop_and_go_on(folder, draw):
    """SIGTERM and Ctrl-C: a checkpoint, exit codes 143 and 130, and the same command resumes. A
    finished run says so; --fresh trains from the beginning; changed settings are listed; the model
    is written."""
    program, name = folder.program("slow"), ["--set", "epochs=20"]
    step = 0
    for number, code, replicas in ((signal.SIGTERM, 143, "2"), (signal.SIGINT, 130, "1"),
                                   (signal.SIGTERM, 143, "3")):
        run = folder.run(program, *name, "--replicas", replicas, "--set",
                         f"optimizer.lr=0.0{replicas}")
        run.wait_step(step + 20)
        check(("optimizer.lr" in run.said()) == (step > 0), "changed settings are not listed")
        run.signal(number)
        run.expect_end(code)
        run.check_steps(step + 1)
        if step:
            check(run.of("resume")[0]["step"] == step, "went on from elsewhere")
        end = run.end_event()
        check(end["result"] == "stopped" and end["checkpoint"] and end["exit_code"] == code,
              "the end event is odd", end)
        step = run.last_step()
        check(step < 800, "it ended by itself")
        folder.check_nothing_left()
    run = folder.run(program, *name)
    run.expect_end(0, 200)
    run.check_steps(step + 1, 800)
    model = os.path.join(folder.path, "slow.run", "model.pt")
    check(run.end_event()["model"] == model and os.path.getsize(model) > 1000, "no model")
    check(run.end_event()["checkpoint"] is True, "the last checkpoint is not told", run.end_event())

    run = folder.run(program, *name)
    run.expect_end(0)
    check("finished" in run.said() and not run.of("step"), "does not say so")
    check(run.end_event().get("already") is True, "no end event")

    run = folder.run(program, "--set", "epochs=1", "--fresh")
    run.expect_end(0)
    run.check_steps(1, 40)


def model_later(folder, draw):
    """A model that cannot be written at first is written as soon as possible."""
    folder_of_run = os.path.join(folder.path, "slow.run")
    obstacle = os.path.join(folder_of_run, "model.pt.part")
    run = folder.run(folder.program("slow"), "--set", "epochs=10")
    run.wait_step(3)
    os.mkdir(obstacle)
    wait_until(lambda: any("is kept in memory" in line for _, said in logs_below(folder.path)
                           for line in said), "it says that it waits")
    check(run.process.poll() is None, "it has not waited")
    os.rmdir(obstacle)
    run.expect_end(0)
    check(os.path.getsize(os.path.join(folder_of_run, "model.pt")) > 1000, "no model")


def model_after_all(folder, draw):
    """A trained state whose model cannot be written is not lost, whether the run is killed while it
    waits or told to stop: the next start trains no step, and writes the model."""
    folder_of_run = os.path.join(folder.path, "slow.run")
    obstacle = os.path.join(folder_of_run, "model.pt.part")
    program = folder.program("slow")
    for end in (signal.SIGKILL, signal.SIGTERM):
        run = folder.run(program, "--set", "epochs=10", "--fresh")
        run.wait_step(3)
        os.mkdir(obstacle)
        run.wait_event("checkpoint", step=400)
        run.signal(end)
        run.end()
        wait_until(lambda: not folder.left(), "the end of all replicas")
        if end == signal.SIGTERM:
            check("the trained model cannot be saved" in run.end_event()["reason"],
                  "an odd reason", run.end_event())
        os.rmdir(obstacle)
        run = folder.run(program, "--set", "epochs=10")
        run.expect_end(0)
        check(not run.of("step") and run.of("resume")[0]["step"] == 400, "it trained", run.events)
        check(run.end_event()["ended_by"] == "epochs", "another end", run.end_event())
        check(os.path.getsize(os.path.join(folder_of_run, "model.pt")) > 1000, "no model")


def stop_twice(folder, draw):
    """The second Ctrl-C does not wait for a checkpoint, even if a replica is stopped."""
    run = folder.run(folder.program("slow"), "--replicas", "2", "--set", "epochs=1000")
    run.wait_step(10)
    pid = list(run.members().values())[1]
    kill(pid, signal.SIGSTOP)
    run.signal(signal.SIGINT)
    wait_until(lambda: run.request(request="status")["state"] == "stopping", "the first Ctrl-C")
    time.sleep(0.5)  # the time itself is tested: a launcher that does not wait has ended by then
    check(run.process.poll() is None, "the first Ctrl-C did not wait")
    run.signal(signal.SIGINT)
    run.expect_end(130, 20)  # less than the time for it
    check(run.end_event()["checkpoint"] is False, "a checkpoint it cannot have made")


def stop_while_growing(folder, draw):
    """SIGTERM while a new replica starts, connects or receives the state: the run still ends soon,
    with a checkpoint of the last step."""
    program, step = folder.program("slow"), 0
    for delay in (0.0, 0.1, 0.3, draw.uniform(0.0, 0.5)):
        run = folder.run(program, "--replicas", "1:2", "--replicas-at", "0:1", "--set",
                         "epochs=1000")
        run.wait_step(step + 3)
        run.request(request="scale", replicas=2)
        wait_until(lambda: len(run.request(request="status")["members"]) == 2, "a newcomer")
        if delay > 0:
            wait_until(lambda: len(run.members()) == 2 or any(
                m["state"] == "ready" for m in run.request(request="status")["members"]),
                "a ready newcomer", every=0.005)
            time.sleep(delay)  # a random time during its start
        run.signal(signal.SIGTERM)
        run.expect_end(143, 20)
        check(run.end_event()["checkpoint"], "no checkpoint")
        run.check_steps(step + 1)
        step = run.last_step()


def second_of_a_name(folder, draw):
    """A second run with the name of a live one is refused with a message, and harms nothing."""
    program = folder.program("slow")
    run = folder.run(program, "--set", "epochs=1000")
    run.wait_step(3)
    for fresh in ([], ["--fresh"]):
        second = folder.run(program, "--set", "epochs=1000", *fresh)
        second.expect_end(1)
        check(not second.events and "slow" in second.said(), "no sentence")
        check(str(run.process.pid) in second.said(), "it does not say who")
    run.wait_steps_more(5)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def kill_anything(folder, draw):
    """SIGKILL of the launcher, the replicas, or all, with one of them stopped: no process is left
    after 5 s, and the same command resumes from a checkpoint at most one interval old."""
    program = folder.program("slow")
    step = saved = 0
    for victims in ("launcher", "replicas", "all", "stopped"):
        run = folder.run(program, "--replicas", "2", "--set", "epochs=1000", *OFTEN)
        run.wait_step(step + 1)
        if step:
            (resume,) = run.of("resume")
            check(resume["step"] >= saved, f"went on from {resume['step']}, {saved} was on disk")
            run.check_steps(resume["step"] + 1)
        saved = run.wait_event("checkpoint", after=run.count())["step"]
        run.wait_event("checkpoint", after=run.count())
        pids, seen = list(run.members().values()), run.count()
        if victims == "stopped":
            kill(pids[1], signal.SIGSTOP)
        if victims != "launcher" and victims != "stopped":
            for pid in pids:
                kill(pid)
        if victims == "replicas":
            # The launcher is alive and restarts by itself from the newest checkpoint.
            resume = run.wait_event("resume", after=seen)
            newest = [e["step"] for e in run.of("checkpoint")][-1]
            check(resume["step"] == newest or resume["step"] >= saved, "an old checkpoint")
            run.wait_for(lambda events: [e for e in events if e["event"] == "step"][-1]["step"]
                         > resume["step"] + 3, "steps after the restart")
        run.process.kill()
        run.end(5)
        if victims == "stopped":
            wait_until(lambda: pids[0] not in folder.left(), "the other replica has ended")
            kill(pids[1], signal.SIGCONT)
        folder.check_nothing_left(5)
        # A checkpoint written by then; the newest may be newer.
        saved = max(event["step"] for event in run.of("checkpoint"))
        step = run.last_step()
        times = {event["step"]: event["time_s"] for event in run.of("step")}
        # From the first step that is not in it, as trained last: a restart takes time, too.
        age = times[step] - times.get(saved + 1, times[step])
        check(age < 0.5 + 3.0, f"the newest checkpoint is {age:.1f} s old")


def damaged_checkpoints(folder, draw):
    """The run resumes from the newest intact checkpoint and reports the damaged ones. If none is
    intact, it refuses, and says how to train from the beginning."""
    program = folder.program("slow")
    run = folder.run(program, "--set", "epochs=1000", "--set", "checkpoint_interval_s=0.3")
    for _ in range(3):
        run.wait_event("checkpoint", after=run.count())
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    folder_of = os.path.join(folder.path, "slow.run", "checkpoints")
    saved = sorted(entry for entry in os.listdir(folder_of) if entry.startswith("step-"))
    check(len(saved) == 3, "three checkpoints are kept", saved)

    def files(checkpoint):
        path = os.path.join(folder_of, checkpoint)
        return [path] if os.path.isfile(path) else [os.path.join(path, f) for f in os.listdir(path)]

    biggest = max(files(saved[2]), key=os.path.getsize)
    with open(biggest, "r+b") as file:  # some bytes flipped
        file.seek(os.path.getsize(biggest) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0x10]))
    biggest = max(files(saved[1]), key=os.path.getsize)
    os.truncate(biggest, os.path.getsize(biggest) // 2)
    run = folder.run(program, "--set", "epochs=1000")
    resume = run.wait_event("resume")
    expected = int(re.search(r"step-0*(\d+)", saved[0])[1])
    check(resume["step"] == expected, f"not from step {expected}")
    text = " ".join(resume["problems"])
    check(saved[1] in text and saved[2] in text, "does not say which are damaged", resume)
    run.wait_step(expected + 3)
    check(saved[2] in run.said(), "the user is not told")
    run.process.kill()
    run.end()
    folder.check_nothing_left()
    for entry in os.listdir(folder_of):
        if entry.startswith("step-"):
            for path in files(entry):
                os.truncate(path, 3)
    run = folder.run(program, "--set", "epochs=1000")
    run.expect_end(1)
    check("--fresh" in run.said() and not run.of("step"), "does not refuse")
    run = folder.run(program, "--set", "epochs=1", "--fresh")
    run.expect_end(0)
    run.check_steps(1, 40)


main(stop_and_go_on, model_later, model_after_all, stop_twice, stop_while_growing,
     second_of_a_name, kill_anything, damaged_checkpoints)
