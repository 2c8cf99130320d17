"""A program with an optimizer of its own: its state goes to new replicas and into checkpoints."""

import os
import shutil
import signal

from support import check, main, same_losses

# The rate is so low that the loss stays large beside its rounding.
SLOWLY = ["--set", "optimizer.lr=0.001"]
OWN = [*SLOWLY, "--set", "optimizer.kind=program"]
SGD = [*SLOWLY, "--set", "optimizer.momentum=0.9"]


def program_of(folder):
    return shutil.copy(os.path.join(folder.material, "..", "linked_program"), folder.path)


def own_optimizer(folder, draw):
    """Over a rescale and a restart the losses are those of a single replica, and of the same
    optimizer of ours."""
    program = program_of(folder)
    # Without an end: the second replica comes when it has started.
    run = folder.run(program, *OWN, "--replicas", "1:2", "--replicas-at", "0:1,2:2", "--set",
                     "epochs=1000")
    run.wait_replicas(2)
    run.wait_steps_more(5)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    first = run.losses()
    epochs = ["--set", f"epochs={max(4, max(first) // 40 + 2)}"]
    fixed = folder.run(program, *SGD, *epochs, "--name", "fixed", "--replicas", "1")
    alone = folder.run(program, *OWN, *epochs, "--name", "alone", "--replicas", "1")
    run = folder.run(program, *OWN, *epochs, "--replicas", "2")
    check(run.wait_event("resume")["step"] == max(first), "resumed elsewhere", max(first))
    for other in (fixed, alone, run):
        other.expect_end(0, 200)
    same_losses(alone.losses(), fixed.losses(), 1e-4)
    same_losses(first | run.losses(), fixed.losses(), 1e-4)
    last = fixed.losses()
    check(last[160] < last[1] / 2, "it does not learn", last[1], last[160])


def no_optimizer(folder, draw):
    """An archive brings none; and the numbers of other optimizers are not its."""
    run = folder.run(folder.program("huge"), *OWN)
    run.expect_end(1)
    check("brings no optimizer" in run.said() and not run.of("step"), "another error", run.said())
    run = folder.run(program_of(folder), *OWN, *SGD)
    run.expect_end(1)
    check("optimizer.momentum" in run.said() and not run.of("step"), "another error", run.said())


main(own_optimizer, no_optimizer)
