"""The example programs train, also while a replica dies and comes back."""

import os

from support import check, kill, main


def trained(folder, draw, name, *arguments):
    """The run of an example whose replica is killed once."""
    run = folder.run(os.path.join(folder.material, "example_" + name), "--replicas", "2",
                     *arguments)
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


def stream(folder, draw):
    """A stream of text files, with noise of each sample's own."""
    run = trained(folder, draw, "stream", "--", folder.file("shards"))
    error = last_metric(run, "error")
    check(error < 0.2, f"the mean error is {error}")


main(policy, stream)
