"""How a run ends by its settings: limits, early stopping, and the best model."""

import itertools
import os
import signal

from support import check, kill, main, same_losses, wait_until

# Validations of a quarter of the points, after every 10 steps.
VALIDATING = ["--set", "data.validation_fraction=0.25", "--set", "validate_every_epochs=0.3333"]
OFTEN = ["--set", "checkpoint_interval_s=0.2"]
# On a busy machine links may break again and again after a death.
PATIENT = ["--max-restarts", "20"]


def model_of(run, name="model.pt"):
    return os.path.join(run.of("start")[0]["output_dir"], name)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def expect_finished(run, ended_by):
    run.expect_end(0, 200)
    end = run.end_event()
    check(end["result"] == "finished" and end["ended_by"] == ended_by, "another end", end)
    check(end["model"] == model_of(run) and os.path.getsize(end["model"]) > 1000, "no model", end)
    return end


def steps_are_limited(folder, draw):
    """max_steps ends training after exactly that step, also if replicas come and die, and in a run
    that continues; a validation follows, and the model is saved."""
    program = folder.program("slow")
    limit = ["--set", "max_steps=1000", *VALIDATING]  # replicas take a while to start
    run = folder.run(program, *limit, *PATIENT, "--replicas", "1:3", "--replicas-at", "0:1,5:3")
    run.wait_replicas(3)
    run.wait_steps_more(2)
    check(kill(next(iter(run.members().values()))), "the replica to kill is gone already")
    end = expect_finished(run, "max_steps")
    run.check_steps(last=1000)
    check("max_steps" in end["reason"] and "max_steps" in run.said(), "no reason", end)
    check(run.of("validation")[-1]["step"] == 1000, "no validation at the end")
    check(folder.run(program, *limit).end() == 0, "it does not say that it has finished")

    limit = ["--set", "max_steps=500"]
    run = folder.run(program, *limit, "--name", "again", "--replicas", "2")
    run.wait_step(20)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    check(run.end_event()["ended_by"] is None, "it has ended", run.end_event())
    step = run.last_step()
    run = folder.run(program, *limit, "--name", "again")
    expect_finished(run, "max_steps")
    run.check_steps(first=step + 1, last=500)

    run = folder.run(program, "--set", "epochs=1", "--set", "max_steps=60", "--fresh")
    check(expect_finished(run, "epochs")["reason"] is None, "a reason", run.end_event())
    run.check_steps(last=40)


def limit_is_lowered(folder, draw):
    """A run that has already passed its new limit trains no further step."""
    program = folder.program("slow")
    run = folder.run(program, "--replicas", "2")
    run.wait_step(12)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run = folder.run(program, "--replicas", "2", "--set", "max_steps=10")
    expect_finished(run, "max_steps")
    check(not run.of("step"), "it trained further")


def limit_is_raised(folder, draw):
    """A finished run goes on where another limit lets it, as if it had never ended."""
    def train(steps, name="train"):
        run = folder.run(folder.program("slow"), "--name", name, "--set", "epochs=1000000",
                         "--set", f"max_steps={steps}")
        run.expect_end(0)
        return run

    whole = train(40, "whole").losses()
    first = train(20)
    expect_finished(first, "max_steps")
    same = train(20)
    check(not same.of("step") and "raise its epochs" in same.said(), "not said how to go on")
    more = train(40)
    expect_finished(more, "max_steps")
    check(min(more.losses()) == 21, "it began elsewhere", more.losses())
    same_losses(first.losses() | more.losses(), whole, 1e-6)
    last = more.of("step")[-1]
    check(last["progress"] == last["progress_total"], "the expected end", last)


def time_of(run):
    """The training time of a run's steps: from the first to the last."""
    times = [event["time_s"] for event in run.of("step")]
    return times[-1] - times[0]


def time_is_limited(folder, draw):
    """max_time counts the training of all starts together, not the time between them. After a
    SIGKILL of everything it goes on from the checkpoint."""
    program = folder.program("slow")
    limit = ["--set", "max_time=10s", *OFTEN]
    run = folder.run(program, *limit, "--replicas", "2")
    run.wait_for(lambda events: len([e for e in events if e["event"] == "step"]) > 5 and
                 time_of(run) > 2.5, "2.5 s of training")
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    spent = time_of(run)
    run = folder.run(program, *limit)
    run.wait_event("checkpoint")
    run.process.kill()
    run.end()
    wait_until(lambda: not folder.left(), "the end of all replicas")
    killed = run.of("step")
    run = folder.run(program, *limit, "--replicas", "2")
    resumed = run.wait_event("resume")["step"]
    spent += max(event["time_s"] for event in killed if event["step"] <= resumed)
    spent -= killed[0]["time_s"]
    check("max_time" in expect_finished(run, "max_time")["reason"], "no reason")
    spent += time_of(run)
    # The first step of each start does not count, and events come late on a busy machine.
    steps = run.of("step")
    longest = max(b["time_s"] - a["time_s"] for a, b in itertools.pairwise(steps))
    check(abs(spent - 10) < 2 + 3 * longest, f"it ended after {spent:.1f} s")


# The metric improves by less than min_delta, so the 16th validation ends it.
STILL = ["--set", "optimizer.lr=1e-9", "--set", "early_stopping={patience: 15, min_delta: 0.01}"]


def early_stopping(folder, draw):
    """Training ends when the metric does not improve: at the same step with 1 and with 3 replicas,
    and if it was stopped and killed on the way."""
    program = folder.program("slow")
    run = folder.run(program, *VALIDATING, *STILL)
    end = expect_finished(run, "early_stopping")
    check("loss did not improve in 15 validations" in end["reason"], "no reason", end)
    validations = [event["step"] for event in run.of("validation")]
    check(len(validations) == 16 and validations[-1] == run.last_step(), "another step",
          validations)

    run = folder.run(program, *VALIDATING, *STILL, *OFTEN, *PATIENT, "--name", "several",
                     "--replicas", "3")
    run.wait_event("validation", step=validations[1])
    check(kill(next(iter(run.members().values()))), "the replica to kill is gone already")
    run.wait_steps_more(1)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run = folder.run(program, *VALIDATING, *STILL, "--name", "several", "--replicas", "2")
    expect_finished(run, "early_stopping")
    check(run.last_step() == validations[-1], "another step than alone", run.last_step())


def best_of(validations, metric, sign):
    best = None
    for event in validations:
        value = event["metrics"][metric]
        if best is None or sign * value < sign * best["metrics"][metric]:
            best = event
    return best


def best_model(folder, draw):
    """The model of the best validation is kept, through a death of the replica that saves it and a
    restart of everything. A later start with worse models leaves it."""
    program = folder.program("slow")
    options = [*VALIDATING, *OFTEN, *PATIENT, "--set", "best={metric: accuracy, mode: max}"]
    run = folder.run(program, *options, "--replicas", "2")
    run.wait_for(lambda events: sum(event.get("best") is True for event in events) >= 2,
                 "two validations that were the best so far")
    check(kill(next(iter(run.members().values()))), "the replica to kill is gone already")
    run.wait_event("generation", to=1)
    run.wait_steps_more(2)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    first = run.of("validation")
    kept = run.end_event()["best"]
    # The event of a validation may die with the replica that wrote it.
    if kept["step"] in [event["step"] for event in first]:
        expected = best_of(first, "accuracy", -1)
        check(kept["step"] == expected["step"] and kept["metric"] == "accuracy" and
              kept["value"] == expected["metrics"]["accuracy"], "another one", kept, expected)
        check([e["step"] for e in first if e.get("best")][-1] == kept["step"], "no mark", first)
    path = model_of(run, "best.pt")
    check(kept["model"] == path, "another file", kept)
    saved = content(path)

    # The other way round, no point has its class.
    worse = ["--set", "data.train.0.scale=-1", "--set", "optimizer.lr=1e-9"]
    run = folder.run(program, *options, *worse, "--set", f"max_steps={run.last_step() + 20}")
    expect_finished(run, "max_steps")
    end = run.end_event()
    check(end["best"] == kept and content(path) == saved, "it was replaced", end, kept)
    check(not os.path.exists(path + ".part"), "a part is left")

    run = folder.run(program, *options, "--set", "epochs=1", "--fresh")
    expect_finished(run, "epochs")
    check(content(path) != saved, "not of this run")


def best_model_survives_its_writer(folder, draw):
    """Rank 0 dies after the validation is agreed, before it has saved the model: another replica
    saves it. A best model that cannot be saved ends nothing."""
    program = folder.program("slow")
    options = [*VALIDATING, *PATIENT, "--set", "best={metric: accuracy, mode: max}", "--set",
               "optimizer.lr=1e-9", "--set", "max_steps=11", "--replicas", "2"]
    run = folder.run(program, *options, ADAPTDL_FAULT="saving_best:10:0")
    end = expect_finished(run, "max_steps")
    check(run.of("failure")[0]["signal"] == 9, "nobody died")
    best = end["best"]
    check(best["step"] == 10 and os.path.exists(best["model"]), "no best model", end)

    obstacle = model_of(run, "best.pt.part")
    os.mkdir(obstacle)
    run = folder.run(program, *options, "--fresh")
    end = expect_finished(run, "max_steps")
    check(end["best"]["model"] is None, "it says that it is saved", end)
    check(all("error" in e for e in run.of("validation") if e.get("best")), "no error")
    check("is not saved" in run.said(), "the user is not told")


def best_model_takes_long(folder, draw):
    """Rank 0 writes the best model for longer than a hang may last, while the other replica waits
    in the next step: nobody is killed."""
    run = folder.run(folder.program("slow"), *VALIDATING, "--set",
                     "best={metric: accuracy, mode: max}", "--set", "max_steps=20", "--replicas",
                     "2", "--hang-timeout", "1", ADAPTDL_FAULT="saving_best:10:0:slow")
    end = expect_finished(run, "max_steps")
    check(not run.of("failure"), "somebody was killed", run.of("failure"))
    check(os.path.exists(end["best"]["model"]), "no best model", end)
    step = {event["step"]: event["time_s"] for event in run.of("step")}
    check(step[11] - step[10] >= 10, "the model was quick", step)


def wrong_settings(folder, draw):
    """Mistakes are told before the first step."""
    program = folder.program("slow")
    for setting, sentence in (("best.metric=recall", "validation_step does not return"),):
        run = folder.run(program, *VALIDATING, "--set", setting)
        run.expect_end(1)
        check(sentence in run.said() and not run.of("step"), "another error", run.said())
    run = folder.run(program, "--set", "early_stopping.patience=2")
    run.expect_end(1)
    check("early_stopping needs validations" in run.said(), "another error", run.said())


main(steps_are_limited, limit_is_lowered, limit_is_raised, time_is_limited, early_stopping,
     best_model, best_model_survives_its_writer, best_model_takes_long, wrong_settings)
