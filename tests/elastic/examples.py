"""The example programs, built against the installed library, train, also while a replica dies and
comes back.
"""

import os
import shutil

from support import check, digit_pictures, kill, main, png, write


def trained(folder, draw, name, *arguments, data=None):
    """The run of an example whose replica is killed once. `data`: beside it lie those of that
    example of `adaptdl init`."""
    program = folder.file(name)
    if data:
        code, _, error = folder.command("init", data, folder.file(data))
        check(code == 0, "no example", error)
        program = folder.file(data, name)
    shutil.copy(os.path.join(folder.material, name), program)
    run = folder.run(program, "--replicas", "2", *arguments)
    run.wait_replicas(2)
    run.wait_steps_more(3)
    check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
    run.expect_end(0, 300)
    run.check_steps()
    return run


def last_metric(run, name):
    return run.of("validation")[-1]["metrics"][name]


def policy(folder, draw):
    """A step that the program defines itself: it plays the episodes that it learns from."""
    run = trained(folder, draw, "policy")
    steps = last_metric(run, "steps")
    check(steps > 120, f"the pole stands for {steps} steps")


def gan(folder, draw):
    """Two models that take turns."""
    run = trained(folder, draw, "gan")
    metrics = run.of("validation")[-1]["metrics"]
    check(metrics["distance"] < 0.3, "far from the clusters", metrics)
    shares = [share for name, share in metrics.items() if name.startswith("cluster")]
    check(len(shares) == 8 and min(shares) > 0.03, "clusters are left out", metrics)


def rule(folder, draw):
    """A scaling rule of the program's own, and sums over replicas and steps."""
    run = trained(folder, draw, "rule", data="digits")
    steps = run.of("step")
    factors = {round(step["lr"] / 0.05, 6) for step in steps}
    check(min(factors) == 1 and max(factors) <= 2, "other learning rates", factors)
    for step in steps:
        factor = max(1, min(2, (step["batch"] / 32) ** 0.5))
        check(step["lr"] <= 0.05 * factor + 1e-9, "another learning rate", step)
    right = [event["value"] for event in run.of("scalar") if event["name"] == "right"]
    check(len(right) == 20 and right[-1] > 0.97, "it learns little", right)
    last = 0
    for event in run.of("scalar"):
        if event["name"] == "seen":
            samples = sum(step["batch"] for step in steps if last < step["step"] <= event["step"])
            check(event["value"] == samples, f"of {samples} samples:", event)
            last = event["step"]


def text(folder, draw):
    """State that goes from one window of a text to the next."""
    run = trained(folder, draw, "text", data="chars")
    check(last_metric(run, "loss") < 2.8, "it learns little", run.of("validation"))
    (fresh,) = [event["value"] for event in run.of("scalar")]
    rescales = len(run.of("rescale"))
    check(16 <= fresh <= 16 * (1 + rescales), "memories were lost", fresh, rescales)


def stream(folder, draw):
    """A stream of text files, with noise of each sample's own."""
    run = trained(folder, draw, "stream", "--", folder.file("shards"))
    error = last_metric(run, "error")
    check(error < 0.2, f"the mean error is {error}")


def images(folder, draw):
    """A folder of images, here of digits in 8 x 8 pixels."""
    code, said, error = folder.command("init", "digits", folder.file("digits"))
    check(code == 0, "no digits", said, error)
    for i, (label, picture) in enumerate(digit_pictures(folder.file("digits"))):
        bright = bytes(15 * value for value in picture)
        write(folder.file("pictures", str(label), f"{i}.png"), png(8, 8, bright))
    run = trained(folder, draw, "images", "--set", "epochs=3", "--", folder.file("pictures"), "16")
    accuracy = last_metric(run, "accuracy")
    check(accuracy > 0.5, f"{accuracy} of the digits are recognised")


main(policy, gan, images, rule, stream, text)
