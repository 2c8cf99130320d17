"""Measures what the adaptive batch is worth: whole runs beside those of the fixed initial batch."""

import itertools
import math
import os
import random
import statistics
import struct
import subprocess

from figures import HERE, emit, new_folder, note

GOOD = 0.98  # of the validation samples of digits
IMAGES, PIXELS = 1797, 8 * 8  # of digits


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


def read_npy(path):
    """The bytes of the values in a small NPY file of version 1."""
    with open(path, "rb") as file:
        content = file.read()
    return content[10 + struct.unpack("<H", content[8:10])[0]:]


def write_npy(path, kind, shape, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values)


def enlarge(folder, times, noise):
    """Makes `times` as many images of those of digits: shifted by a pixel, and with noise."""
    images, labels = (os.path.join(folder, name) for name in ("images.npy", "labels.npy"))
    known, drawn, made = read_npy(images), random.Random(1), bytearray()
    for at in range(0, times * IMAGES * PIXELS, PIXELS):
        image = known[at % len(known):][:PIXELS]
        x, y = drawn.choice((-1, 0, 0, 1)), drawn.choice((-1, 0, 0, 1))
        for row in range(y, y + 8):
            for column in range(x, x + 8):
                inside = 0 <= row < 8 and 0 <= column < 8
                value = (image[row * 8 + column] if inside else 0) + drawn.gauss(0, noise)
                made.append(min(16, max(0, round(value))))
    write_npy(images, "|u1", (times * IMAGES, 1, 8, 8), bytes(made))
    write_npy(labels, "<i8", (times * IMAGES,), read_npy(labels) * times)


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


def throughput(run):
    """Samples per second, of the median step after the first ten; validations lie between steps."""
    steps = run.of("step")[10:]
    spans = [after["time_s"] - before["time_s"] for before, after in itertools.pairwise(steps)]
    return statistics.median(step["batch"] for step in steps) / statistics.median(spans)


def synthetic(options):
    """Ten times as many images, and noisy ones; a small initial batch, so that the largest one has
    more than twice its throughput. The rate is that of digits in proportion to the batch."""
    initial, largest, replicas = 8, 512, 2
    settings = [f"batch.initial={initial}", f"batch.max={largest}", "batch.atomic_min=4",
                "optimizer.lr=0.005", "epochs=4"]
    times, lost, ratios = [], [], []
    folder = new_folder(options)
    try:
        folder.command("init", "digits", folder.file("digits"))
        enlarge(folder.file("digits"), 10, 4)
        for seed in range(options.rounds or 10):
            large = train(folder, "digits", replicas, seed, False, *settings,
                          f"batch.initial={largest}", "max_steps=50")
            runs = {}
            for adapts in ((True, False), (False, True))[seed % 2]:
                runs[adapts] = train(folder, "digits", replicas, seed, adapts, *settings)
            ours, fixed = runs[True], runs[False]
            ratios.append(throughput(large) / throughput(fixed))
            times.append(seconds(ours) / seconds(fixed))
            lost.append(fixed.of("validation")[-1]["metrics"]["accuracy"]
                        - ours.of("validation")[-1]["metrics"]["accuracy"])
            note(f"10 x digits, {replicas} replicas: throughput at {largest} is {ratios[-1]:.1f} "
                 f"times that at {initial}; {times[-1]:.2f} of {seconds(fixed):.1f} s, accuracy "
                 f"lower by {lost[-1]:.4f}, batch up to "
                 f"{max(step['batch'] for step in ours.of('step')):.0f}")
    finally:
        folder.close()
    about = {"program": "10 x digits", "replicas": replicas}
    emit("largest-batch-throughput", ratios, "ratio", at_least=2, **about)
    emit("adaptive-time", times, "ratio", at_most=0.65, **about)
    emit("adaptive-accuracy-lost", lost, "accuracy", at_most=0.005, **about)


def adaptive(options):
    digits(options)
    synthetic(options)
    chars(options)


def factors(true, steps, epochs):
    """By how much each estimate after step 200 is off the truth: mean trace to mean square over a
    tenth of the training before and after, as both leap from step to step."""
    found = []
    for step in steps:
        if step["step"] < 200 or not step["noise_scale"]:
            continue
        now = step["progress"] / steps[-1]["progress"] * epochs
        near = [(trace, square) for epoch, trace, square in true
                if abs(epoch - now) <= max(0.35, 0.1 * now)]
        off = step["noise_scale"] * sum(square for _, square in near) / sum(t for t, _ in near)
        found.append(max(off, 1 / off))
    return sorted(found)


def noise(options):
    """Estimated noise scales beside true ones, along runs of their own with a fixed batch."""
    if not options.python:
        note("noise: skipped, it needs --python")
        return
    adamw = "optimizer={kind: adamw, lr: 0.002, weight_decay: 0.01}"
    for name, kind, epochs, every, settings in (
            ("digits", "sgd", 40, 5, []), ("digits", "adamw", 20, 5, [adamw]),
            ("chars", "adamw", 3, 25, [])):
        folder = new_folder(options)
        try:
            folder.command("init", name, folder.file(name))
            truth = subprocess.run(
                [options.python, os.path.join(HERE, "noise_truth.py"), folder.file(name), name,
                 kind, str(epochs), "1", str(every)], check=True, capture_output=True, text=True)
            true = [tuple(map(float, line.split())) for line in truth.stdout.splitlines()]
            for replicas in (1, 2, 3):
                for adapts in (False, True) if (name, kind) == ("digits", "sgd") else (False,):
                    steps = train(folder, name, replicas, 1, adapts, f"epochs={epochs}",
                                  *settings).of("step")
                    off = factors(true, steps, epochs)
                    about = {"program": name, "optimizer": kind, "replicas": replicas,
                             "adaptive": adapts}
                    emit("noise-scale-off", [statistics.median(off)], "ratio", at_most=1.5,
                         of_95_percent=off[int(0.95 * len(off))], **about)
        finally:
            folder.close()


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
