"""Measures what the adaptive batch is worth: whole runs beside those of the fixed initial batch."""

import math
import statistics

from figures import emit, new_folder, note

GOOD = 0.98  # of the validation samples of digits


def train(folder, name, replicas, seed, adaptive, *settings):
    """Events of a whole run of the example `name`."""
    program = folder.file(name, "train.pt")
    run = folder.run(program, "--fresh", "--replicas", str(replicas), f"--set=seed={seed}",
                     f"--set=batch.adaptive={str(adaptive).lower()}",
                     *(f"--set={setting}" for setting in settings))
    run.expect_end(0, timeout=1200)
    return run


def seconds(run):
    """From the first step to the last: starting processes is another figure."""
    steps = run.of("step")
    return steps[-1]["time_s"] - steps[0]["time_s"]


def until(run, metric, good):
    """Seconds from the first step until a validation reaches `good`; infinite if none does."""
    first = run.of("step")[0]["time_s"]
    return next((event["time_s"] - first for event in run.of("validation")
                 if event["metrics"][metric] >= good), math.inf)


def pairs(options, name, replicas, settings):
    """(adaptive, fixed) runs, one pair for each seed; they take turns in being first."""
    folder = new_folder(options)
    try:
        code, _, errors = folder.command("init", name, folder.file(name))
        if code != 0:
            raise SystemExit(errors)
        for seed in range(options.rounds or 10):
            found = {}
            for adaptive in ((True, False), (False, True))[seed % 2]:
                found[adaptive] = train(folder, name, replicas, seed, adaptive, *settings)
            yield found[True], found[False]
    finally:
        folder.close()


def digits(options):
    for replicas, most in ((2, 0.65), (1, 1.0)):
        times, good, lost, largest = [], [], [], []
        for ours, fixed in pairs(options, "digits", replicas, ["epochs=40"]):
            times.append(seconds(ours) / seconds(fixed))
            good.append(until(ours, "accuracy", GOOD) / until(fixed, "accuracy", GOOD))
            lost.append(fixed.of("validation")[-1]["metrics"]["accuracy"]
                        - ours.of("validation")[-1]["metrics"]["accuracy"])
            largest.append(max(event["batch"] for event in ours.of("step")))
            note(f"digits, {replicas} replicas: {times[-1]:.2f} of {seconds(fixed):.1f} s, to "
                 f"{GOOD:.0%} {good[-1]:.2f}, accuracy lower by {lost[-1]:.4f}, batch up to "
                 f"{largest[-1]:.0f}")
        emit("adaptive-time", times, "ratio", at_most=most, program="digits", replicas=replicas)
        emit("adaptive-time-to-accuracy", good, "ratio", at_most=1.0, program="digits",
             replicas=replicas, accuracy=GOOD)
        emit("adaptive-accuracy-lost", lost, "accuracy", at_most=0.005, program="digits",
             replicas=replicas)
        emit("adaptive-largest-batch", largest, "samples", program="digits", replicas=replicas)


def chars(options):
    for replicas in (2, 1):
        times, lost = [], []
        for ours, fixed in pairs(options, "chars", replicas, ["epochs=2"]):
            times.append(seconds(ours) / seconds(fixed))
            lost.append(ours.of("validation")[-1]["metrics"]["loss"]
                        - fixed.of("validation")[-1]["metrics"]["loss"])
            note(f"chars, {replicas} replicas: {times[-1]:.2f}, loss higher by {lost[-1]:.3f}")
        emit("adaptive-time", times, "ratio", at_most=1.0, program="chars", replicas=replicas)
        emit("adaptive-loss-higher", lost, "loss", program="chars", replicas=replicas)


def adaptive(options):
    digits(options)
    chars(options)


def divergence(options):
    """A large batch on little data: no run may diverge."""
    folder = new_folder(options)
    settings = ["data.validation_fraction=0.4435", "batch.max=1024", "epochs=40"]
    diverged, good = 0, []
    try:
        code, _, errors = folder.command("init", "digits", folder.file("digits"))
        if code != 0:
            raise SystemExit(errors)
        for seed in range(options.rounds or 100):
            run = train(folder, "digits", 2, seed, True, *settings)
            accuracy = run.of("validation")[-1]["metrics"]["accuracy"]
            diverged += accuracy < 0.9
            good.append(until(run, "accuracy", 0.97))
            note(f"seed {seed}: accuracy {accuracy:.3f}, {good[-1]:.2f} s to 97 %, batch up to "
                 f"{max(event['batch'] for event in run.of('step')):.0f}")
    finally:
        folder.close()
    emit("diverged", [diverged], "runs", at_most=0, of=len(good), program="digits", samples=1000)
    emit("time-to-accuracy", [t for t in good if t < math.inf], "s", program="digits",
         samples=1000, accuracy=0.97, never=sum(t == math.inf for t in good),
         mean=statistics.fmean(t for t in good if t < math.inf))
