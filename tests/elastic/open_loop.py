"""A program that keeps its own loop trains as one in the library's loop does, whatever happens to
its replicas."""

import os
import shutil
import signal

from support import check, kill, main, read, same_losses, wait_until

EPOCHS = 4
LAST = EPOCHS * 61  # steps: 1442 images in batches of 24
# Steps are slow until go(), that is, as long as a test waits for replicas to start.
SLOW = ["slow", "go"]
# At this rate different roundings, as of three replicas' sums, stay small.
SLOWLY = ["--set", "optimizer.lr=0.005"]


def program_of(folder):
    """The program, with the digits beside it."""
    if not os.path.exists(folder.file("digits")):
        code, said, error = folder.command("init", "digits", folder.file("digits"))
        check(code == 0, "no example", said, error)
    return shutil.copy(os.path.join(folder.material, "..", "open_program"), folder.file("digits"))


def go(folder):
    folder.write("digits/GO")


def validations(run):
    return {event["step"]: (event["metrics"]["loss"], event["metrics"]["accuracy"])
            for event in run.of("validation")}


def check_state(*runs):
    """The program's own counter of epochs was never lost, nor counted twice. Its event may be lost
    with rank 0, if that dies right after a validation."""
    steps = sorted({event["step"] for run in runs for event in run.of("validation")})
    found = [(event["step"], event["value"]) for run in runs for event in run.of("scalar")]
    check(found, "no events of the program's own")
    for step, value in found:
        check(value == 1 + steps.index(step), "another count of epochs", found, steps)


def pair(folder, program, name, *arguments):
    """The same run in both loops, to its end."""
    runs = [folder.run(program, "--name", f"{name}-{loop}", *arguments, *more)
            for loop, more in (("open", ()), ("closed", ("--", "closed")))]
    for run in runs:
        run.expect_end(0, 200)
        run.check_steps(last=LAST)
    return runs


def same_as_closed(folder, draw):
    """Losses and metrics of both loops are the same to the last bit, with accumulated gradients,
    and where a replica has no samples at the end of a pass; almost so on three replicas, whose sums
    depend on who comes first."""
    program = program_of(folder)
    for name, arguments in {
            "alone": ["--replicas", "1"],
            "two": ["--replicas", "2"],
            "accumulated": ["--replicas", "2", "--set", "batch.atomic_max=4"],
            "three": ["--replicas", "3", *SLOWLY],
    }.items():
        ours, reference = pair(folder, program, name, *arguments)
        check(len(validations(ours)) == EPOCHS, f"{name}: {validations(ours)}")
        if name == "three":
            same_losses(ours.losses(), reference.losses(), 1e-3)
            continue
        check(ours.losses() == reference.losses(), f"{name}: other losses")
        check(validations(ours) == validations(reference), f"{name}: other metrics",
              validations(ours), validations(reference))
        check(max(accuracy for _, accuracy in validations(ours).values()) > 0.9, "it learns little")
        check(os.path.exists(ours.end_event()["model"]), "no model")


def own_data(folder, draw):
    """Data that the program reads itself gives the same losses, also while replicas change."""
    program = program_of(folder)
    reference = folder.run(program, "--name", "reference", "--replicas", "2", "--", "closed")
    ours = folder.run(program, "--name", "own", "--replicas", "2", "--", "own")
    for run in (ours, reference):
        run.expect_end(0, 200)
    check(ours.losses() == reference.losses(), "other losses")
    check(validations(ours) == validations(reference), "other metrics")
    run = folder.run(program, "--name", "changes", "--replicas", "1:2", "--replicas-at", "0:1,15:2",
                     "--set", "data.prefetch_threads=0", "--", "own", *SLOW)
    run.wait_replicas(2)
    run.wait_steps_more(5)
    seen = run.count()
    check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
    run.wait_replicas(2, after=seen)
    go(folder)
    run.expect_end(0, 200)
    run.check_steps(last=LAST)


def model_of_its_own(folder, draw):
    """A step with a single turn is a step: the same losses to the last bit."""
    program = program_of(folder)
    for replicas in ("1", "2"):
        arguments = ["--replicas", replicas, "--set", "data.drop_last=true"]
        runs = [folder.run(program, "--name", f"{name}-{replicas}", *arguments, "--", name)
                for name in ("plain", "model")]
        for run in runs:
            run.expect_end(0, 200)
            run.check_steps(last=EPOCHS * 60)
        check(runs[0].losses() == runs[1].losses(), f"{replicas} replicas: other losses")
        check(validations(runs[0]) == validations(runs[1]), "other metrics")


def turns(folder, draw):
    """Models that take turns train as on a single replica, whenever others die or come."""
    program = program_of(folder)
    reference = folder.run(program, "--name", "reference", "--replicas", "1", *SLOWLY, "--",
                           "turns")
    arguments = ["--name", "turns", "--replicas", "1:3", *SLOWLY, "--max-restarts", "20"]
    run = folder.run(program, *arguments, "--replicas-at", "0:1,15:3", "--", "turns", *SLOW)
    run.wait_replicas(3)
    for _ in range(4):
        run.wait_steps_more(2)
        seen = run.count()
        check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
        run.wait_replicas(2, after=seen)
        run.wait_replicas(3, after=seen)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    first = run.losses()
    run.check_steps(last=max(first))
    again = folder.run(program, *arguments, "--replicas-at", "0:2", "--", "turns")
    for other in (again, reference):
        other.expect_end(0, 200)
    same_losses(first | again.losses(), reference.losses(), 1e-2)
    counted = {event["value"] for each in (run, again) for event in each.of("scalar")}
    wanted = [event["value"] for event in reference.of("scalar")]
    check(len(wanted) == EPOCHS and counted <= set(wanted) and wanted[-1] in counted,
          "turns were counted twice, or lost", counted, wanted)
    accuracy = validations(reference)[EPOCHS * 60][1]
    check(accuracy > 0.5, f"the pupil learns little: {accuracy}")


def streams(folder, draw):
    """A stream with noise gives each step the samples and the noise that a single replica's closed
    loop has undisturbed, while replicas come and die, and after the run was stopped."""
    program = program_of(folder)
    reference = folder.run(program, "--name", "reference", "--replicas", "1", *SLOWLY, "--",
                           "closed", "stream")
    arguments = ["--name", "streams", "--replicas", "1:3", *SLOWLY]
    run = folder.run(program, *arguments, "--replicas-at", "0:1,15:3", "--set",
                     "data.prefetch_threads=3", "--", "stream", *SLOW)
    run.wait_replicas(3)
    run.wait_steps_more(3)
    seen = run.count()
    check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
    run.wait_replicas(2, after=seen)
    run.wait_steps_more(3)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    first = run.losses()
    check(max(first) < LAST, "it was too fast")
    again = folder.run(program, *arguments, "--replicas-at", "0:2", "--", "stream")
    check(again.wait_event("resume")["step"] == max(first), "resumed elsewhere", max(first))
    for other in (again, reference):
        other.expect_end(0, 200)
    same_losses(first | again.losses(), reference.losses(), 1e-4)
    evaluated = folder.run(program, "--name", "streams", "--evaluate", "--replicas", "2", "--",
                           "closed", "stream")
    evaluated.expect_end(0)
    ours, wanted = validations(evaluated)[LAST], validations(again)[LAST]
    check(abs(ours[0] - wanted[0]) < 1e-5, "another loss in the evaluation", ours, wanted)


def collective(folder, draw):
    """Values that replicas exchange after an epoch's batches, also while one dies there."""
    run = folder.run(program_of(folder), "--replicas", "3", "--max-restarts", "20", "--set",
                     "data.validation_fraction=0.8", "--set", "epochs=12", "--", "collect", *SLOW)
    run.wait_replicas(3)
    for _ in range(4):
        run.wait_event("epoch", after=run.count())
        seen = run.count()
        check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
        run.wait_replicas(3, after=seen)
    go(folder)
    run.expect_end(0, 200)
    run.check_steps()
    steps = sorted({event["step"] for event in run.of("validation")})
    check(len(steps) == 12, "other epochs", steps)
    for event in run.of("scalar"):
        wanted = {"epoch": steps.index(event["step"]), "ones": 1}
        check(event["value"] == wanted.get(event["name"], event["value"]), "another value", event)


def elastic(folder, draw):
    """Replicas come, die and go, and the run is stopped and resumed; each step's loss is that of a
    single replica in the closed loop, and no finished step is lost."""
    program = program_of(folder)
    reference = folder.run(program, "--name", "reference", "--replicas", "1", *SLOWLY, "--",
                           "closed")
    arguments = ["--name", "elastic", "--replicas", "1:3", *SLOWLY]
    run = folder.run(program, *arguments, "--replicas-at", "0:1,15:3", "--", *SLOW)
    run.wait_replicas(3)
    run.wait_steps_more(5)
    for _ in range(3):
        seen = run.count()
        check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
        run.wait_replicas(2, after=seen)
        run.wait_replicas(3, after=seen)
        run.wait_steps_more(3)
    seen = run.count()
    run.request(request="scale", replicas=1)
    run.wait_replicas(1, after=seen)
    run.wait_steps_more(3)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    first = run.losses()
    check(max(first) < LAST, "it was too fast")
    run.check_steps(last=max(first))
    again = folder.run(program, *arguments, "--replicas-at", "0:2")
    check(again.wait_event("resume")["step"] == max(first), "resumed elsewhere", max(first))
    for other in (again, reference):
        other.expect_end(0, 200)
    same_losses(first | again.losses(), reference.losses(), 1e-2)
    ours, wanted = validations(run) | validations(again), validations(reference)
    check(ours.keys() == wanted.keys(), "other validations", ours, wanted)
    check_state(run, again)


def join_after_validations(folder, draw):
    """Replicas that join between two epochs get the state after the body of the one before."""
    program = program_of(folder)
    run = folder.run(program, "--replicas", "1:2", "--replicas-at", "0:1", "--set", "epochs=100000",
                     "--set", "data.validation_fraction=0.97")
    for replicas in (2, 1, 2, 1, 2):
        run.wait_event("validation", after=run.count())
        seen = run.count()
        run.request(request="scale", replicas=replicas)
        run.wait_replicas(replicas, after=seen)
    run.request(request="cancel", checkpoint=False)
    run.expect_end(143)
    check_state(run)


def die_in_validation(folder, draw):
    """Kills at any time of short epochs, many of them in a validation: the sums are complete."""
    program = program_of(folder)
    run = folder.run(program, "--replicas", "3", "--max-restarts", "20", "--set",
                     "data.validation_fraction=0.8", "--set", "epochs=12", "--", *SLOW)
    run.wait_replicas(3)
    for _ in range(4):
        run.wait_event("validation", after=run.count())
        seen = run.count()
        check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
        run.wait_replicas(3, after=seen)
    go(folder)
    run.expect_end(0, 200)
    run.check_steps()
    found = [event["metrics"]["accuracy"] * 1438 for event in run.of("validation")]
    check(len(found) == 12, f"{len(found)} validations")
    check_state(run)
    check(all(abs(count - round(count)) < 1e-6 for count in found), "not of all samples", found)


def finishes(folder, draw):
    """finish() ends the run with its model after the epoch's body, whatever becomes of replicas."""
    program = program_of(folder)
    run = folder.run(program, "--replicas", "3", "--max-restarts", "20", "--set",
                     "data.validation_fraction=0.8", "--set", "epochs=100", "--", "finish", *SLOW)
    run.wait_replicas(3)
    for _ in range(3):
        run.wait_event("validation", after=run.count())
        seen = run.count()
        check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
        run.wait_replicas(3, after=seen)
    go(folder)
    run.expect_end(0, 200)
    run.check_steps()
    check_state(run)
    end = run.end_event()
    check(len(validations(run)) == 12, "another last epoch", validations(run))
    check(end["ended_by"] == "program" and "finish()" in end["reason"], "another end", end)
    check(os.path.exists(end["model"]), "no model")


def throws(folder, draw):
    """An exception in the loop's body ends the run with its message, once it is no coincidence."""
    run = folder.run(program_of(folder), "--replicas", "2", "--", "throw")
    run.expect_end(1)
    run.check_steps(last=5)
    check("asked for" in run.said() and "step 6" in run.said(), "another message", run.said())


def after(folder, draw):
    """What main() does after the training is waited for, and its exit code is the run's."""
    program = program_of(folder)
    run = folder.run(program, "--replicas", "2", "--set", "epochs=1", "--", "after")
    run.expect_end(7, 200)
    check(read(os.path.join(os.path.dirname(program), "after")) == "whole", "it was cut off")
    end = run.end_event()
    check(end["result"] == "failed" and os.path.exists(end["model"]), "another end", end)
    check("the program failed after its training: exit code 7" in run.said(), "silent", run.said())
    # One that ended its training itself trains no further when only its main() runs again.
    arguments = ["--name", "finished", "--replicas", "2", "--set", "data.validation_fraction=0.8",
                 "--set", "epochs=30", "--", "finish", "after"]
    first = folder.run(program, *arguments)
    first.expect_end(7, 200)
    steps = first.end_event()["steps"]
    check(first.end_event()["ended_by"] == "program" and steps < 12 * 30, "not by finish()", steps)
    again = folder.run(program, *arguments)
    again.expect_end(7, 200)
    end = again.end_event()
    check(end["ended_by"] == "program" and end["steps"] == steps and not again.of("step"),
          "it trained on", end)


def by_hand(folder, draw):
    """Without a launcher: SIGINT writes a checkpoint, and the same command goes on from it."""
    program = program_of(folder)
    kept = {"ADAPTDL_CHECKPOINT_PATH": folder.file("kept")}
    if "ADAPTDL_LIBTORCH" in os.environ:
        kept["LD_LIBRARY_PATH"] = os.path.join(os.environ["ADAPTDL_LIBTORCH"], "lib")

    def start(name, *words):
        with open(folder.file(name), "wb") as log:
            return folder.start([program, *words], kept, cwd=folder.file("digits"), stdout=log,
                                stderr=log)

    process = start("first.log", "slow")
    wait_until(lambda: "epoch 0" in read(folder.file("first.log")), "an epoch")
    process.send_signal(signal.SIGINT)
    check(process.wait(60) == 143, "another exit code", process.returncode,
          read(folder.file("first.log")))
    process = start("second.log")
    check(process.wait(100) == 0, "another exit code", read(folder.file("second.log")))
    said = read(folder.file("second.log"))
    check("epoch 0" not in said and "epoch 3" in said, "it did not go on", said)
    check(os.path.exists(folder.file("digits", "model.pt")), "no model")


main(same_as_closed, own_data, collective, streams, model_of_its_own, turns, elastic,
     join_after_validations, die_in_validation, finishes, throws, after, by_hand)
