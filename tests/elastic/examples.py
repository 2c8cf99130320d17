"""The example programs train, also while a replica dies and comes back."""

import os
import shutil

from support import check, kill, main


def trained(folder, draw, name, *arguments):
    """The run of an example whose replica is killed once."""
    program = shutil.copy(os.path.join(folder.material, "example_" + name), folder.file(name))
    run = folder.run(program, "--replicas", "2", *arguments)
    run.wait_replicas(2)
    run.wait_steps_more(3)
    seen = run.count()
    check(kill(draw.choice(list(run.members().values()))), "the replica is gone already")
    run.wait_replicas(2, after=seen)
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


main(policy, gan)
