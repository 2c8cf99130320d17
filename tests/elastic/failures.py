"""Invalid programs are refused with a message before training; programs that always fail are given
up; steps with a loss that is not finite are skipped."""

import array
import json
import os
import signal
import statistics
import struct
import time

from support import SmallDisk, check, kill, main, read, read_safetensors, same_losses, wait_until


def refused(folder, name, *arguments, words=(), replicas="2"):
    run = folder.run(folder.program(name), "--replicas", replicas, *arguments)
    run.expect_end(1)
    said = run.said()
    check(not run.of("step") and not run.of("generation"), f"{name}: something was trained")
    sentences = [line for line in said.splitlines() if any(w in line for w in words[:1])]
    check(sentences, f"{name}: no sentence with {words[0]!r}", said)
    for word in words:
        check(word in said, f"{name}: nothing about {word!r}", said)
    for noise in ("terminate called", "frame #", "Exception raised"):
        check(noise not in said, f"{name}: more than a sentence", said)
    longest = max(said.splitlines(), key=len)
    check(len(longest) < 600, f"{name}: a very long sentence", longest)


def bad_archives(folder, draw):
    """Each one: a one-line message and exit code 1, before any replica trains."""
    refused(folder, "truncated", words=("truncated.pt",))
    refused(folder, "no_settings", words=("adaptdl.yaml",))
    refused(folder, "no_step", words=("training_step",))
    refused(folder, "signature", words=("List[Tensor]",))
    refused(folder, "not_scalar", words=("scalar", "3"))
    refused(folder, "no_gradient", words=("no gradient",))
    refused(folder, "whole_number", words=("floating-point",))
    refused(folder, "no_tensor", words=("Tensor",))
    refused(folder, "raises", words=("training_step",))
    folder.write("text.pt", "no archive at all\n")
    refused(folder, "text", words=("text.pt",))


def bad_data(folder, draw):
    refused(folder, "no_data", words=("nowhere.npy",))
    refused(folder, "lengths", words=("953", "960"))
    refused(folder, "mlp", "--set", "data.train.0.path=gone.npy", words=("gone.npy",))
    folder.write("broken.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr'")
    refused(folder, "mlp", "--set", "data.train.0.path=broken.npy", "--name", "broken",
            words=("broken.npy",))


def bad_settings(folder, draw):
    refused(folder, "mlp", "--set", "optimizer.learning_rate=1", words=("learning_rate",))
    refused(folder, "mlp", "--set", "optimizer.lr=fast", words=("optimizer.lr",))
    refused(folder, "mlp", "--set", "batch.initial=0", words=("batch.initial",))
    refused(folder, "samples", "--set", "data.validation_fraction=0.5",
            words=("validation_step",))


def dies_each_start(folder, draw):
    """A program that always dies before its first step is given up, with the reason."""
    for replicas in ("1", "2"):
        run = folder.run(folder.program("slow"), "--replicas", replicas, "--max-restarts", "2",
                         "--name", f"never-{replicas}", ADAPTDL_FAULT="syncing:0:any")
        run.expect_end(1, 200)
        end = run.end_event()
        check(end["result"] == "failed" and end["reason"], "no reason", end)
        check(not run.of("step"), "it trained")
        check(3 <= len(run.of("failure")) <= 3 * int(replicas), "not the tries that are allowed")


def dies_in_a_step(folder, draw):
    """Failures in a row are counted; a finished step resets the count."""
    run = folder.run(folder.program("slow"), "--replicas", "2", "--max-restarts", "2", "--set",
                     "epochs=5", ADAPTDL_FAULT="prepared:5:0")
    run.expect_end(0, 200)  # one death; the repeated step resets the count
    run.check_steps(last=200)
    # A single replica dies at the same step in every attempt.
    run = folder.run(folder.program("slow"), "--replicas", "1", "--max-restarts", "2", "--set",
                     "epochs=5", "--name", "always", ADAPTDL_FAULT="prepared:5:any")
    run.expect_end(1, 200)
    end = run.end_event()
    check(end["result"] == "failed" and "2" in end["reason"], "no reason")
    check(len(run.of("failure")) == 3, "not three tries")
    check(run.last_step() == 4, "it got past the step")


def exceptions(folder, draw):
    """An exception in a step is a death like any other, until another replica fails there."""
    run = folder.run(folder.program("slow"), "--replicas", "2", "--set", "epochs=2",
                     ADAPTDL_FAULT="reduced:5:0:throw")
    run.expect_end(0, 200)
    run.check_steps(last=80)
    failure, = run.of("failure")
    check("step 5, samples 96 to 119 of epoch 0" in failure["reason"] and
          "1 of 2 continue" in failure["next"], "an odd failure", failure)
    for replicas in ("1", "2"):
        run = folder.run(folder.program("slow"), "--replicas", replicas, "--set", "epochs=2",
                         "--name", f"again-{replicas}", ADAPTDL_FAULT="reduced:5:any:throw")
        run.expect_end(1, 200)
        reason = run.end_event()["reason"]
        check("two replicas failed in the same step" in reason and
              reason.count("the exception that was asked for") == 2, "an odd reason", reason)
        check(run.last_step() == 4, "it got past the step")


def exceptions_after_a_step(folder, draw):
    """So is an exception of LibTorch or the standard library between two steps: the others go on,
    and no step is lost."""
    for point in ("prepared", "committed", "applied", "announced"):
        for member in ("0", "1"):
            run = folder.run(folder.program("slow"), "--replicas", "2", "--set", "epochs=1",
                             "--name", f"{point}-{member}",
                             ADAPTDL_FAULT=f"{point}:5:{member}:no_memory")
            run.expect_end(0, 200)
            run.check_steps(last=40)
            failure, = run.of("failure")
            check("bad_alloc" in failure["reason"] and "1 of 2 continue" in failure["next"],
                  "an odd failure", failure)
    run = folder.run(folder.program("slow"), "--replicas", "2", "--set", "epochs=1", "--name",
                     "again", ADAPTDL_FAULT="committed:5:any:no_memory")
    run.expect_end(1, 200)
    check("two replicas failed in the same step" in run.end_event()["reason"], "an odd reason",
          run.end_event())


def memory_runs_out(folder, draw):
    """Smaller passes, and the same losses as if the user had asked for them."""
    asked = folder.run(folder.program("greedy"), "--set", "batch.atomic_max=8", "--name", "asked")
    asked.expect_end(0, 200)
    for replicas, accumulation in (("1", "true"), ("2", "true"), ("1", "false")):
        run = folder.run(folder.program("greedy"), "--replicas", replicas, "--set",
                         f"batch.accumulation={accumulation}", "--name",
                         f"greedy-{replicas}-{accumulation}")
        run.expect_end(0, 200)
        check(not run.of("failure"), "a replica failed", run.of("failure"))
        same_losses(run.losses(), asked.losses(), 1e-4)
        check(all(event["atomic"] <= 8 for event in run.of("step")), "larger passes")
        check(any("memory ran out" in event["cause"] for event in run.of("batch")), "no event")
    for _ in range(2):  # the second one finds the limit in its checkpoint
        run = folder.run(folder.program("greedy"), "--set", "epochs=1000000", "--name", "greedy")
        run.wait_event("step")
        run.signal(signal.SIGTERM)
        run.expect_end(143)
        found = [event["atomic"] for event in run.of("batch")]
        check(found[-1] <= 8, "larger passes", found)
    check(len(found) == 1, "the limit was forgotten", found)
    code, shown, _ = folder.command("inspect", folder.file("greedy.run"), "-o", "json")
    shown = json.loads(shown)
    check(code == 0 and shown["atomic_limit"] == found[-1] and shown["precision"] == "fp32" and
          not shown["damages"] and shown["step"] == run.last_step(), "not shown", shown)
    # The trial of a new replica is as large as its share.
    run = folder.run(folder.program("greedy"), "--replicas", "3", "--name", "shared")
    run.expect_end(0, 200)
    check({event["atomic"] for event in run.of("step")} == {8}, "smaller passes", run.of("batch"))
    # Nothing smaller is left to try.
    run = folder.run(folder.program("greedy"), "--set", "batch.atomic_min=12", "--name", "hopeless")
    run.expect_end(1, 200)
    check("allocate memory" in run.end_event()["reason"], "an odd reason", run.end_event())


def hangs(folder, draw):
    """A replica whose program hangs is killed when the others have waited long enough: ten times as
    long as --hang-timeout, since it computes in vain. No finished step is lost, and a new replica
    replaces it."""
    folder.write("hang", struct.pack("<f", 1.0))
    run = folder.run(folder.program("hangs"), "--replicas", "2", "--hang-timeout", "1")
    failure = run.wait_event("failure")
    check(failure["signal"] == 9 and "--hang-timeout" in failure["reason"] and
          "1 of 2 continue" in failure["next"], "an odd failure", failure)
    run.expect_end(0)
    run.check_steps(last=100)
    check(len(run.of("failure")) == 1, "more failures")
    step = {event["step"]: event["time_s"] for event in run.of("step")}
    check(10.0 <= step[2] - step[1] < 90.0, f"held up for {step[2] - step[1]:.1f} s")
    check("the others have been waiting for replica" in run.said(), "no warning")


def all_hang(folder, draw):
    """When all replicas hang, or the only one does, they restart from the newest checkpoint, and
    the losses are those of a run without a hang."""
    program = folder.program("slow")
    whole = folder.run(program, "--replicas", "1", "--set", "epochs=2", "--name", "whole")
    whole.expect_end(0)
    for replicas in (1, 2):
        for member in range(replicas):
            folder.write(f"hang-{member}", "")
        run = folder.run(program, "--replicas", str(replicas), "--set", "epochs=2", "--set",
                         "checkpoint_interval_s=0.01", "--hang-timeout", "2", "--name",
                         f"all-{replicas}", ADAPTDL_FAULT="prepared:20:any:hang")
        run.expect_end(0, 200)
        hang, = run.of("hang")
        check(hang["members"] == list(range(replicas)) and hang["seconds"] >= 2 and
              hang["step"] == 19, "an odd hang", hang)
        said = read(hang["file"])
        check(said.count("waits in") >= replicas and f"replica {replicas - 1}, process" in said,
              "not what they were doing", said)
        check(len(run.of("failure")) == replicas, "other failures", run.of("failure"))
        check(0 < run.of("resume")[0]["step"] < 20, "not from a checkpoint", run.of("resume"))
        same_losses(run.losses(), whole.losses(), 1e-4)


def stays_stopped(folder, draw):
    """The same for a replica stopped by SIGSTOP, also rank 0; after a shorter stop it continues."""
    run = folder.run(folder.program("slow"), "--replicas", "2", "--hang-timeout", "8")
    run.wait_step(5)
    pid = list(run.members().values())[draw.randrange(2)]
    kill(pid, signal.SIGSTOP)
    time.sleep(1.5)  # the time itself is tested: less than --hang-timeout
    kill(pid, signal.SIGCONT)
    run.wait_steps_more(5)
    victim, pid = next(iter(run.members().items()))
    kill(pid, signal.SIGSTOP)
    failure = run.wait_event("failure")
    check(failure["member"] == victim and "was stopped" in failure["reason"], "an odd failure",
          failure)
    run.wait_event("rescale", cause="replacement")
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()
    check(len(run.of("failure")) == 1, "more failures")


def stops_on_its_way(folder, draw):
    """A new replica is stopped when the others have entered its generation and wait there."""
    run = folder.run(folder.program("slow"), "--replicas", "1:2", "--replicas-at", "0:1,5:2",
                     "--hang-timeout", "3", ADAPTDL_FAULT="syncing:0:1:stop")
    failure = run.wait_event("failure")
    check(failure["member"] == 1 and "was stopped" in failure["reason"], "an odd failure", failure)
    run.wait_size(2)  # a new replica replaces it
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def full_checkpoint_disk(folder, draw):
    """If checkpoints cannot be written, training reports this and continues, and writes them again
    when there is room. A stop or an end without the last checkpoint has failed, but the trained
    model is saved, and the same command mends it."""
    with SmallDisk(folder.file("small")) as disk:
        fill_and_empty(folder, disk)


def fill_and_empty(folder, disk):
    filler = os.path.join(disk, "filler")

    def fill():
        with open(filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def checkpoint(run):
        seen = run.count()
        run.wait_for(lambda events: any(event["event"] == "checkpoint" and "error" not in event
                                        for event in events[seen:]), "a checkpoint")

    def no_room(run):
        """Fills the disk until a checkpoint fails: one that is just written makes room at its end,
        where it removes an old one."""
        seen = run.count()
        return wait_until(lambda: fill() or next(
            (event for event in run.events[seen:] if event["event"] == "checkpoint" and
             "error" in event), None), "a checkpoint that fails", tell=run.story)

    often = ["--checkpoint-dir", os.path.join(disk, "checkpoints"), "--replicas", "2", "--set",
             "checkpoint_interval_s=0.3"]
    run = folder.run(folder.program("slow"), *often)
    checkpoint(run)
    event = no_room(run)
    check("No space left on device" in event["error"], "an odd error", event)
    run.wait_steps_more(100)
    check(run.said().count("checkpoint failed: ") == 1, "not told once")
    os.unlink(filler)
    checkpoint(run)
    no_room(run)
    run.signal(signal.SIGTERM)
    run.expect_end(1)
    end = run.end_event()
    check("No space left" in end["reason"] and not end["checkpoint"], "an odd end", end)
    run.check_steps()
    os.unlink(filler)
    last = run.last_step()
    rest = ["--set", f"epochs={last // 40 + 10}"]
    run = folder.run(folder.program("slow"), *often, *rest)
    check(run.wait_event("resume")["step"] > 0, "it does not go on")
    no_room(run)
    run.expect_end(1)
    end = run.end_event()
    check("No space left" in end["reason"] and not end["checkpoint"], "an odd end", end)
    check(os.path.exists(os.path.join(run.of("start")[0]["output_dir"], "model.pt")), "no model")
    check("cannot write the record" in run.said(), "the user is not told")
    os.unlink(filler)
    run = folder.run(folder.program("slow"), *often, *rest)
    run.expect_end(0)
    check(run.end_event()["checkpoint"], "no checkpoint", run.end_event())


def not_finite(folder, draw):
    """A step with a loss that is not finite is skipped and counted; many in a row end the job."""
    run = folder.run(folder.program("nonfinite"), "--replicas", "1")
    run.expect_end(0)
    run.check_steps(last=20)
    skipped = [event["step"] for event in run.of("step") if event.get("skipped")]
    check(skipped == [2, 12], f"skipped {skipped}")
    check([event["step"] for event in run.of("skipped")] == skipped, "no skipped events")
    check(run.end_event()["skipped"] == 2, "not counted")
    check(run.of("step")[1]["loss"] is None, "its loss", run.of("step")[1])
    run = folder.run(folder.program("nonfinite"), "--replicas", "2", "--name", "ends",
                     "--set", "data.train.0.scale=-1", "--set", "max_nonfinite=5")
    run.expect_end(1)
    end = run.end_event()
    check("not finite" in end["reason"] and "5" in end["reason"], "no reason", end)
    run.check_steps(1)


def gradient_not_finite(folder, draw):
    """A finite loss whose gradient is not a number does not corrupt the parameters."""
    run = folder.run(folder.program("nan_gradient"), "--replicas", "2", "--set", "max_nonfinite=6",
                     "--set", "checkpoint_interval_s=0.001")
    run.expect_end(1)
    check("gradient" in run.end_event()["reason"], "no reason", run.of("end"))
    steps = run.of("step")
    check(len(steps) == 6 and all(step["skipped"] and step["loss"] == 0 for step in steps),
          "not skipped, or the parameters were spoilt", steps)
    # One bad sample, in a step that the statistics do not measure, on one replica of two, and in a
    # pass of several.
    for name, extra in (("alone", ["--replicas", "1"]), ("two", ["--replicas", "2"]),
                        ("passes", ["--replicas", "1", "--set", "batch.accumulation=true",
                                    "--set", "batch.atomic_max=8"])):
        run = folder.run(folder.program("bad_sample"), "--name", name, *extra)
        run.expect_end(0)
        skipped = [event["step"] for event in run.of("step") if event.get("skipped")]
        check(skipped == [2, 12, 22], f"skipped {skipped}")
        check(all(loss is not None for loss in run.losses().values()), "spoilt", run.losses())


def leaves_no_trace(folder, draw):
    """Buffers are as if the skipped and the repeated steps had never been."""
    run = folder.run(folder.program("counting"), "--replicas", "2", "--max-restarts", "20")
    run.wait_step(15)
    for _ in range(5):
        seen = run.count()
        kill(draw.choice(list(run.members().values())))
        run.wait_replicas(1, after=seen)
        run.wait_replicas(2, after=seen)
        run.wait_steps_more(5)
    run.request(request="cancel", checkpoint=False)
    run.expect_end(143)
    for step, loss in run.losses().items():
        expected = None if step % 10 == 2 else step - (step + 7) // 10
        check(loss == expected, f"step {step}: {loss} instead of {expected}")


def points_of(folder, name, count):
    with open(folder.file(name), "rb") as file:
        values = array.array("f", file.read()[-count * 3 * 4:])
    return [values[i:i + 3] for i in range(0, len(values), 3)]


def updated(statistic, batch, of):
    """A running statistic of three columns after a batch."""
    columns = ([point[k] for point in batch] for k in range(3))
    return [0.9 * old + 0.1 * of(column) for old, column in zip(statistic, columns)]


def same_statistics(folder, run, mean, var):
    """The trained model has the means over the replicas' running statistics."""
    weights = folder.file("weights.safetensors")
    code, _, said = folder.command("export", run.end_event()["model"], weights)
    check(code == 0, "the model was not exported", said)
    header, elements = read_safetensors(weights)
    for name, wanted in (("mean", mean), ("var", var)):
        begin, end = header[name]["data_offsets"]
        ours = array.array("f", elements[begin:end])
        wanted = [statistics.mean(column) for column in zip(*wanted)]
        check(all(abs(a - b) <= 1e-5 * abs(b) + 1e-6 for a, b in zip(ours, wanted)),
              f"another {name}", ours.tolist(), wanted)


def running_statistics(folder, draw):
    """A skipped step leaves no trace in what normalisation over batches keeps either, although
    autograd does not count its changes."""
    program = folder.program("normalises")
    points = points_of(folder, "spoilt.npy", 240)
    for replicas in (1, 2):
        mean, var = [[0.0] * 3] * replicas, [[1.0] * 3] * replicas
        for step in range(20):
            if step % 10 == 1:
                continue  # has a sample that is not a number
            batch = points[24 * (step % 10):][:24]
            shares = [batch[rank::replicas] for rank in range(replicas)]
            mean = [updated(m, share, statistics.mean) for m, share in zip(mean, shares)]
            var = [updated(v, share, statistics.variance) for v, share in zip(var, shares)]
        run = folder.run(program, "--replicas", str(replicas), "--name", f"norm-{replicas}")
        run.expect_end(0)
        skipped = [event["step"] for event in run.of("skipped")]
        check(skipped == [2, 12], f"skipped {skipped}")
        same_statistics(folder, run, mean, var)


def two_samples_or_none(folder, draw):
    """No replica normalises over a single sample at the end of a pass: of four samples that are
    left for three, two replicas have two each."""
    program = folder.program("normalises")
    points = points_of(folder, "rest_of_4.npy", 220)
    mean, var = [[0.0] * 3] * 3, [[1.0] * 3] * 3
    for begin in range(0, 220, 24):
        batch = points[begin:begin + 24]
        sharers = 3 if len(batch) == 24 else 2
        for rank in range(sharers):
            share = batch[rank::sharers]
            mean[rank] = updated(mean[rank], share, statistics.mean)
            var[rank] = updated(var[rank], share, statistics.variance)
    run = folder.run(program, "--replicas", "3", "--set", "data.train.0.path=rest_of_4.npy",
                     "--set", "epochs=1")
    run.expect_end(0)
    check(run.of("step")[-1]["batch"] == 4, "another rest", run.of("step")[-1])
    same_statistics(folder, run, mean, var)


main(bad_archives, bad_data, bad_settings, dies_each_start, dies_in_a_step, exceptions,
     exceptions_after_a_step, memory_runs_out, hangs, all_hang, stays_stopped, stops_on_its_way,
     full_checkpoint_disk, not_finite, gradient_not_finite, leaves_no_trace, running_statistics,
     two_samples_or_none)
