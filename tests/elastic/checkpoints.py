"""Checkpoints come in time, hold only finite numbers, and the mean of the replicas' buffers."""

import os
import struct

from support import check, kill, main, read_json, same_losses

STEP = 0.25  # s
SELDOM = 30  # s; half of the longest time between two checkpoints


def slow_steps(folder):
    profile = folder.write("steps.yaml", "placements:\n" + "".join(
        f"  - {{gpus: [{replicas}], atomic: {24 // replicas}, step_s: {STEP}, sync_s: 0}}\n"
        for replicas in (1, 2)))
    return {"ADAPTDL_TEST_STRETCH": profile}


def on_disk(run):
    """{step: manifest} of the run's checkpoints, and a function that reads a tensor of fp32."""
    folder = run.of("start")[0]["checkpoint_dir"]
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("step-"):
            found[int(name[5:])] = read_json(os.path.join(folder, name, "manifest.json"))

    def tensor(step, name):
        (entry,) = [t for t in found[step]["tensors"] if t["name"] == name]
        with open(os.path.join(folder, f"step-{step:012}", entry["file"]), "rb") as file:
            file.seek(entry["offset"])
            return struct.unpack(f"<{entry['bytes'] // 4}f", file.read(entry["bytes"]))

    return found, tensor


def check_lost(run, resumed):
    """Before it was resumed, no more steps were finished since its checkpoint than fit between the
    newest one that was told of and the next one."""
    before = run.events[:run.events.index(resumed)]
    newest = [event for event in before if event["event"] == "checkpoint"][-1]
    last = [event["step"] for event in before if event["event"] == "step"][-1]
    lost, most = last - resumed["step"], (newest["next_s"] + newest["seconds"]) / STEP + 2
    check(newest["step"] <= resumed["step"] and lost <= most, "too many steps were lost", lost,
          most, newest, resumed)


def quick_kills(folder, draw):
    """Kills of the only replica in the first minute lose only seconds of training."""
    run = folder.run(folder.program("slow"), "--replicas", "1", "--max-restarts", "20",
                     **slow_steps(folder))
    began, seen = 0, 0
    for _ in range(4):
        first = run.wait_event("checkpoint", after=seen)
        check(first["step"] - began <= 3 / STEP, "the first checkpoint was late", first, began)
        check(first["next_s"] < SELDOM, "the next one is far away", first)
        run.wait_step(first["step"] + round(first["next_s"] / STEP) + 4 + draw.randrange(8))
        (pid,) = run.members().values()
        kill(pid)
        resumed = run.wait_event("resume", after=seen)
        check_lost(run, resumed)
        began, seen = resumed["step"], run.events.index(resumed) + 1
    run.request(request="cancel", checkpoint=False)
    run.expect_end(143)
    check(len(run.of("failure")) == 4, "other failures")


def left_alone(folder, draw):
    """The last replica that has the state writes it at once."""
    run = folder.run(folder.program("slow"), "--replicas", "2", **slow_steps(folder))
    seen = run.count()
    run.wait_event("checkpoint", after=seen)
    run.wait_steps_more(2)
    _, other = run.members().values()
    seen = run.count()
    kill(other)
    alone = run.wait_replicas(1, after=seen)
    # At once, that is, of this step. One that was due before may be told of first.
    run.wait_event("checkpoint", after=seen, step=alone["step"])
    run.request(request="cancel", checkpoint=False)
    run.expect_end(143)
    run.check_steps()


OFTEN = ["--set", "checkpoint_interval_s=0.001", "--set", "checkpoints_kept=1000"]


def finite(folder, draw):
    """A state that is no longer finite is not written, and the user is told which tensor it is.
    While losses are finite training goes on."""
    run = folder.run(folder.program("huge"), "--replicas", "2", *OFTEN, "--set",
                     "optimizer.kind=adam")
    run.expect_end(0)
    run.check_steps(last=50)
    check(None not in run.losses().values(), "a loss is not finite")
    refused = [event for event in run.of("checkpoint") if "error" in event]
    check(refused and refused[0]["tensor"] == "optimizer/w/exp_avg_sq", "not refused", refused)
    check("exp_avg_sq" in run.said(), "the user is not told")
    check(run.end_event()["checkpoint"] is False, "a last checkpoint", run.end_event())
    steps, _ = on_disk(run)
    check(list(steps) == [1], "not only the one before the overflow", list(steps))

    # The losses are not finite either, unless it happens in the last step.
    for name, epochs, words in (("parameters", 5, "in 10 steps in a row"),
                                ("last", 0.2, "training came to its end, but parameter w holds")):
        run = folder.run(folder.program("huge"), "--replicas", "2", "--name", name, *OFTEN, "--set",
                         "optimizer.lr=1e13", "--set", f"epochs={epochs}")
        run.expect_end(1)
        check(words in run.end_event()["reason"], "no reason", run.end_event())
        steps, _ = on_disk(run)
        check(list(steps) == [1], "not only the one before the overflow", list(steps))


def mean_of_buffers(folder, draw):
    """A checkpoint holds the mean of the replicas' buffers; they train on with their own."""
    program = folder.program("drifting")
    run = folder.run(program, "--replicas", "2", *OFTEN)
    run.expect_end(0)
    other = folder.run(program, "--replicas", "2", "--name", "other")
    other.expect_end(0)
    same_losses(run.losses(), other.losses(), 0)
    with open(folder.file("points.npy"), "rb") as file:
        points = struct.unpack(f"<{960 * 16}f", file.read()[-960 * 16 * 4:])
    mean, means = 0.0, {}
    for step in range(1, 201):
        begin = 24 * 16 * ((step - 1) % 40)
        mean = 0.5 * mean + 0.5 * sum(points[begin:begin + 24 * 16]) / (24 * 16)
        means[step] = mean
    steps, tensor = on_disk(run)
    check(len(steps) >= 3, "too few checkpoints", list(steps))
    for step in steps:
        (value,) = tensor(step, "buffer/mean")
        check(abs(value - means[step]) < 1e-6, f"step {step}: {value}, not {means[step]}")
        check(tensor(step, "buffer/mask") == (float("-inf"),) * 2, "the mask", step)


def private_files(folder, draw):
    """Whatever the umask, only the user can read a run's logs, record and checkpoints."""
    mask = os.umask(0)
    try:
        run = folder.run(folder.program("slow"), "--set", "max_steps=20", "--replicas", "2",
                         "--name", "mine")
        run.expect_end(0)
        code, _, err = folder.command("run", "--name", "script", "--", "/bin/echo", "hello")
        check(code == 0, "the command failed", err)
    finally:
        os.umask(mask)
    inside = [os.path.join(top, name) for top, folders, files in os.walk(folder.path)
              for name in folders + files if ".run" in os.path.join(top, name)]
    check(any(path.endswith("manifest.json") for path in inside), "no checkpoint", inside)
    check(sum(path.endswith("replica-0.log") for path in inside) == 2, "no logs", inside)
    # The result is for others, too, once the user lets them into its folder.
    open_ones = [path for path in inside if os.lstat(path).st_mode & 0o077
                 and not path.endswith("model.pt") and not os.path.islink(path)]
    check(not open_ones, "others may read", open_ones)


main(quick_kills, left_alone, finite, mean_of_buffers, private_files)
