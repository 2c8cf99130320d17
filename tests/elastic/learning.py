"""A run with a changing number of replicas learns the same as one of fixed size, from the same
samples."""

from support import check, kill, main, same_losses

# The runs have no end: the start time of new replicas depends on the machine, so the tests cancel
# the runs when they have seen enough.
ENDLESS = ["--set", "epochs=100000"]
EPOCH = 40  # steps


def cancel(*runs):
    for run in runs:
        run.request(request="cancel", checkpoint=False)
    for run in runs:
        run.expect_end(143)
        run.check_steps()


def same_beginning(run, fixed):
    """Compares the losses of all steps that both runs made."""
    ours, reference = run.losses(), fixed.losses()
    both = ours.keys() & reference.keys()
    return {step: ours[step] for step in both}, {step: reference[step] for step in both}


def learns_the_same(folder, draw):
    """Five rescales, planned and by SIGKILL, with a fixed batch: the loss of each step is that of a
    run with a single replica, so momentum, buffers and the sampler's state are kept."""
    program = folder.program("slow")
    run = folder.run(program, "--name", "elastic", "--replicas", "1:3", "--replicas-at", "0:1,40:3",
                     *ENDLESS)
    run.wait_replicas(3)
    run.wait_steps_more(10)
    members = list(run.members().values())
    for victim in (members[0], members[2]):
        seen = run.count()
        check(kill(victim), "the replica to kill is gone already")
        run.wait_replicas(2, after=seen)
        run.wait_replicas(3, after=seen)
        run.wait_steps_more(5)
    run.wait_step(10 * EPOCH)
    cancel(run)

    fixed = folder.run(program, "--name", "fixed", "--replicas", "1", *ENDLESS)
    fixed.wait_step(run.last_step(), 300)
    cancel(fixed)
    same_losses(*same_beginning(run, fixed))
    changes = [event for event in run.of("generation") if event["from"] > 0]
    check(len(changes) >= 5, f"only {len(changes)} rescales")
    check({event["replicas"] for event in run.of("step")} == {1, 2, 3}, "not all sizes were there")
    check({event["batch"] for event in run.of("step")} == {24}, "the batch was not fixed")


def reads_the_same_samples(folder, draw):
    """Every step takes the same samples as a single replica: rescales skip or repeat no sample of a
    pass."""
    program = folder.program("samples")
    fixed = folder.run(program, "--name", "fixed", "--replicas", "1", *ENDLESS)
    run = folder.run(program, "--name", "elastic", "--replicas", "1:3", "--replicas-at", "0:1",
                     *ENDLESS)
    run.wait_steps_more(5)
    for size in (3, 1, 2):
        seen = run.count()
        run.request(request="scale", replicas=size)
        run.wait_replicas(size, after=seen)
        run.wait_steps_more(7)
    seen = run.count()
    kill(next(iter(run.members().values())))
    run.wait_replicas(2, after=seen)
    run.wait_steps_more(3 * EPOCH)
    fixed.wait_step(run.last_step())
    cancel(run, fixed)
    same_losses(*same_beginning(run, fixed), 1e-12)
    losses = run.losses()
    epochs = range(len(losses) // EPOCH)
    check(len(epochs) >= 3, "too few passes over the data")
    steps = [tuple(losses[1 + EPOCH * e + i] for i in range(EPOCH)) for e in epochs]
    sums = [24 * sum(epoch) for epoch in steps]
    check(max(sums) - min(sums) <= 1e-12 * max(sums), "epochs differ in what they read", sums)
    check(len(set(steps)) == len(epochs), "epochs come in the same order")


def counts_samples(folder, draw):
    """A pass is an epoch also where a lone replica has no two whole steps in a row, whose gradients
    it could compare."""
    run = folder.run(folder.program("samples"), "--set", "batch.initial=700", "--set", "epochs=3")
    run.expect_end(0)
    progress = [event["progress"] for event in run.of("step")]
    expected = [epoch * 960 / 700 + part for epoch in range(3) for part in (1, 960 / 700)]
    check(len(progress) == 6 and all(abs(a - b) < 1e-9 for a, b in zip(progress, expected)),
          "another progress", progress, expected)


main(learns_the_same, reads_the_same_samples, counts_samples)
