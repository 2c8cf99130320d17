"""Whoever comes and goes, the run learns what a run of fixed size learns, from the same samples."""

from harness import check, kill, main, same_losses

RESCALES = ["--replicas", "1:3", "--set", "epochs=12"]


def learns_the_same(folder, draw):
    """Five changes of members, by plan and by kill -9; fixed batch, momentum, buffers of the
    sampler: each step's loss is that of a lone replica's run."""
    program = folder.program("slow")
    fixed = folder.run(program, "--name", "fixed", "--replicas", "1", "--set", "epochs=12")
    fixed.expect_end(0, 300)
    steps = 12 * 40
    fixed.check_steps(last=steps)

    run = folder.run(program, "--name", "elastic", *RESCALES, "--replicas-at", "0:1,40:3,220:2,300:3")
    run.wait_replicas(3)
    run.wait_steps_more(10)
    members = list(run.members().values())
    for victim in (members[0], members[2]):
        seen = run.count()
        check(kill(victim), "the replica to kill is gone already", run.story())
        run.wait_replicas(2, after=seen)
        run.wait_replicas(3, after=seen, timeout=120)
        run.wait_steps_more(5)
    run.expect_end(0, 300)
    run.check_steps(last=steps)
    changes = [event for event in run.of("generation") if event["from"] > 0]
    check(len(changes) >= 5, f"only {len(changes)} rescales", run.story())
    same_losses(run.losses(), fixed.losses())
    check({event["replicas"] for event in run.of("step")} == {1, 2, 3}, "not all sizes were there")
    check({event["batch"] for event in run.of("step")} == {24}, "the batch was not fixed")


def reads_the_same_samples(folder, draw):
    """Every step takes the samples that a lone replica takes: no sample of a pass is skipped or
    read twice, whoever comes and goes."""
    program, epochs = folder.program("samples"), 40  # longer than newcomers take
    fixed = folder.run(program, "--name", "fixed", "--replicas", "1", "--set", f"epochs={epochs}")
    run = folder.run(program, "--name", "elastic", "--replicas", "1:3", "--replicas-at", "0:1",
                     "--set", f"epochs={epochs}")
    run.wait_steps_more(5)
    for size in (3, 1, 2):
        seen = run.count()
        run.request(request="scale", replicas=size)
        run.wait_replicas(size, after=seen)
        run.wait_steps_more(7)
    seen = run.count()
    kill(list(run.members().values())[0])
    run.wait_replicas(2, after=seen)
    fixed.expect_end(0, 200)
    run.expect_end(0, 200)
    for each in (fixed, run):
        each.check_steps(last=epochs * 40)
    same_losses(run.losses(), fixed.losses(), 1e-12)
    losses = run.losses()
    sums = [24 * sum(losses[1 + 40 * e + i] for i in range(40)) for e in range(epochs)]
    check(max(sums) - min(sums) <= 1e-12 * max(sums), "epochs differ in what they read", sums)
    steps = [tuple(losses[1 + 40 * e + i] for i in range(40)) for e in range(epochs)]
    check(len(set(steps)) == epochs, "epochs come in the same order")


main(learns_the_same, reads_the_same_samples)
