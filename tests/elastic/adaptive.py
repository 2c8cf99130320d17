"""What an adaptive batch must do."""

import statistics

from support import check, kill, main


def learns_as_well(folder, draw):
    """With a changing number of replicas too, the result is as good as with one replica and a fixed
    batch: the final losses are within two standard deviations over five seeds."""
    def final(run):
        """Mean validation loss of the last epochs: a single epoch is noisy."""
        losses = [event["metrics"]["loss"] for event in run.of("validation")]
        return statistics.mean(losses[-3:])

    common = ["--set", "epochs=30", "--set", "data.validation_fraction=0.25",
              "--set", "optimizer.lr=0.02"]
    fixed, elastic = [], []
    for seed in range(5):
        options = [*common, "--set", f"seed={seed}", "--set", "data.split_seed=7"]
        run = folder.run(folder.program("slow"), "--name", f"fixed-{seed}", *options)
        run.expect_end(0, 300)
        run.check_steps()
        fixed.append(final(run))
        run = folder.run(folder.program("slow"), "--name", f"elastic-{seed}", *options,
                         "--set", "batch.adaptive=true", "--set", "batch.max=192", "--replicas",
                         "1:3", "--replicas-at", "0:1,30:3,200:2,300:3")
        run.wait_replicas(3)
        run.wait_steps_more(10)
        kill(next(iter(run.members().values())))
        run.expect_end(0, 300)
        run.check_steps()
        check(max(event["batch"] for event in run.of("step")) > 24, "the batch was not adapted")
        elastic.append(final(run))
    print("    fixed:  ", ", ".join(f"{loss:.4f}" for loss in fixed))
    print("    elastic:", ", ".join(f"{loss:.4f}" for loss in elastic))
    deviation = max(statistics.stdev(fixed), statistics.stdev(elastic))
    difference = statistics.mean(elastic) - statistics.mean(fixed)
    print(f"    difference {difference:+.4f}, standard deviation {deviation:.4f}")
    check(abs(difference) <= 2 * deviation, f"{difference:+.4f} is more than 2 x {deviation:.4f}")


def follows_the_noise_alone(folder, draw):
    """The noise of the digits' gradients grows fivefold and more in 20 epochs, and a lone replica,
    which has a single gradient in most steps, notices."""
    code, _, errors = folder.command("init", "digits", folder.file("digits"))
    check(code == 0, "init failed", errors)
    run = folder.run(folder.file("digits", "train.pt"), "--set=epochs=20", "--set=batch.max=64")
    run.expect_end(0, 300)
    halved = sum(event["accum_s"] > 0 and event["accumulation"] == 0 for event in run.of("step"))
    check(halved >= 20, f"{halved} steps in halves")
    found = [event["noise_scale"] for event in run.of("step") if event["noise_scale"]]
    second, last = (statistics.median(found[at:at + 100]) for at in (50, len(found) - 100))
    check(last > 3 * second, f"a noise scale of {second:.0f} in epoch 2, of {last:.0f} at the end")


main(learns_as_well, follows_the_noise_alone)
