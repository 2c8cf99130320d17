"""A job that moves between kinds of accelerators keeps apart what it has measured on each."""

import os
import signal
import statistics

from support import check, main, read_json, wait_until


def life(folder, kind, *arguments, step_s=None, program="adaptive"):
    """One life of the run on that kind: after some steps its hints, its newest checkpoint's state,
    and how long its steps took in the mean, which a busy machine makes longer."""
    environment = {"ADAPTDL_ACCELERATOR": kind}
    if step_s:
        environment["ADAPTDL_TEST_STRETCH"] = folder.write(
            f"{kind}.yaml", "placements:\n" + "".join(
                f"  - {{gpus: [1], atomic: {atomic}, step_s: {step_s}, sync_s: 0}}\n"
                for atomic in (1, 1000)))
    run = folder.run(folder.program(program), "--name", "moves", "--set", "epochs=1000000",
                     *arguments, **environment)
    run.wait_step(1)
    run.wait_steps_more(12)
    hints = wait_until(lambda: run.request(request="status").get("hints"), "hints")
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    check(run.of("generation")[-1]["accelerator"] == kind, "another kind", run.of("generation"))
    path = run.of("start")[0]["checkpoint_dir"]
    newest = max(name for name in os.listdir(path) if name.startswith("step-"))
    state = read_json(os.path.join(path, newest, "manifest.json"))["state"]
    return hints, state, statistics.mean(event["optim_s"] for event in run.of("step"))


def step_s(hints, kind):
    perf = hints["accelerators"][kind]["perfParams"]
    return perf["alpha_c"] + 24 * perf["beta_c"]


def fits_are_kept(folder, draw):
    """Step times by kind, through restarts on another kind and back."""
    first, _, slow = life(folder, "T4", step_s=0.4)
    check(first["accelerator"] == "T4" and list(first["accelerators"]) == ["T4"], "kinds", first)
    check(first["perfParams"] == first["accelerators"]["T4"]["perfParams"], "the present", first)
    check(0.39 < step_s(first, "T4") < 1.5 * slow, "another step time", slow, first)

    fast, state, quick = life(folder, "A100", step_s=0.05)
    check(fast["accelerator"] == "A100" and set(fast["accelerators"]) == {"A100", "T4"}, "kinds",
          fast)
    check(0.045 < step_s(fast, "A100") < 3 * quick, "mixed with another kind", quick, fast)
    check(0.39 < step_s(fast, "T4") < 1.5 * slow, "mixed with another kind", slow, fast)
    check({mean["accelerator"] for mean in state["profile"]} == {"A100", "T4"}, "saved", state)

    back, _, again = life(folder, "T4", step_s=0.4)
    check(back["accelerator"] == "T4", "kinds", back)
    check(0.045 < step_s(back, "A100") < 3 * quick, "mixed with another kind", quick, back)
    check(0.39 < step_s(back, "T4") < 1.5 * max(slow, again), "mixed with another kind", slow,
          again, back)


def memory_is_kept(folder, draw):
    """What the memory of one kind holds limits no other."""
    few = "batch.atomic_max=4"  # which fits everywhere
    hints, state, _ = life(folder, "T4", program="greedy")
    most = state["progress"]["atomic_limit"]
    check(1 <= most <= 8 and state["atomic_limits"] == {"T4": most}, "no limit", state)
    check(hints["accelerators"]["T4"]["maxLocalBsz"] == most, "hints", hints)
    _, state, _ = life(folder, "A100", "--set", few, program="greedy")
    check(state["atomic_limits"] == {"T4": most} and state["progress"]["atomic_limit"] == 0,
          "its limit on another kind", state)
    _, state, _ = life(folder, "T4", "--set", few, program="greedy")
    check(state["progress"]["atomic_limit"] == most, "its limit was forgotten", state)


main(fits_are_kept, memory_is_kept)
