"""Weights without training, and weights from elsewhere: run --evaluate, run --from, export."""

import json
import os
import signal
import struct

from support import check, main, read_safetensors

SMALL = ["--set", "epochs=2"]
# A step that changes nothing that a metric would show.
STAND = ["--set", "max_steps=1", "--set", "optimizer.lr=1e-9"]


def trained(folder, *arguments):
    """A finished run of mlp, with its model and metrics."""
    run = folder.run(folder.program("mlp"), *SMALL, *arguments)
    run.expect_end(0, 200)
    return run, run.end_event()["model"], run.end_event()["validation"]


def same_metrics(ours, reference):
    check(ours.keys() == reference.keys() and
          all(abs(ours[name] - value) < 1e-5 for name, value in reference.items()),
          "other metrics", ours, reference)


def temporary(folder):
    """A TMPDIR for what a failed evaluation leaves."""
    path = folder.file("tmp")
    os.makedirs(path, exist_ok=True)
    return path


def files_below(path):
    """{file: (size, time of its last change)}, without what the tests themselves write."""
    return {file: (os.path.getsize(file), os.stat(file).st_mtime_ns)
            for folder, _, names in os.walk(path) for name in names
            if not (file := os.path.join(folder, name)).startswith(os.path.join(path, "run-"))}


def evaluates(folder, draw):
    """The metrics are those of the training's last validation, for any number of replicas; also of
    the best model, and of a checkpoint of a run that trains. Nothing is written."""
    run, model, expected = trained(folder, "--replicas", "2", "--set", "best={}")
    program = folder.program("mlp")
    before = files_below(folder.path)
    for replicas in ("1", "3"):
        evaluation = folder.run(program, "--evaluate", "--replicas", replicas)
        evaluation.expect_end(0)
        (validation,) = evaluation.of("validation")
        same_metrics(validation["metrics"], expected)
        check(validation["step"] == run.last_step(), "another checkpoint", validation)
        end = evaluation.end_event()
        same_metrics(end["validation"], expected)
        check(end["result"] == "finished" and "step-" in end["model"], "an odd end", end)
        check(not evaluation.of("step") and not evaluation.of("checkpoint"), "it trained")
        check(evaluation.of("start")[0]["evaluate"] is True, "an odd start")
        check(evaluation.of("generation")[0]["to"] == int(replicas), "other replicas")

    best = run.end_event()["best"]
    evaluation = folder.run(program, "--evaluate", "--from", best["model"])
    evaluation.expect_end(0)
    metrics = evaluation.of("validation")[0]["metrics"]
    check(abs(metrics["loss"] - best["value"]) < 1e-5, "not the best model", metrics, best)

    code, table, _ = folder.command("run", program, "--evaluate", "--from", model)
    lines = [line.split() for line in table.splitlines()]
    check(code == 0 and lines[1] == ["METRIC", "VALUE"], "no table", table)
    same_metrics({name: float(value) for name, value in lines[2:]}, expected)
    check(files_below(folder.path) == before, "it wrote something",
          files_below(folder.path).items() ^ before.items())
    folder.check_nothing_left()

    live = folder.run(program, "--name", "live", "--set", "epochs=100000", "--set",
                      "checkpoint_interval_s=0.5")
    live.wait_event("checkpoint")
    evaluation = folder.run(program, "--name", "live", "--evaluate")
    evaluation.expect_end(0)
    check(evaluation.of("validation")[0]["step"] > 0, "not its checkpoint")
    live.signal(signal.SIGTERM)
    live.expect_end(143)


def evaluation_survives(folder, draw):
    """A replica dies during the evaluation: the others evaluate everything. Ctrl-C ends it."""
    _, _, expected = trained(folder)
    program = folder.program("mlp")
    run = folder.run(program, "--evaluate", "--replicas", "3", ADAPTDL_FAULT="syncing:0:1")
    run.expect_end(0)
    check(run.of("failure"), "nobody died")
    same_metrics(run.end_event()["validation"], expected)
    run = folder.run(program, "--evaluate", "--replicas", "2", ADAPTDL_FAULT="syncing:0:0:stop")
    run.says("was stopped")
    run.signal(signal.SIGINT)
    run.expect_end(130, 20)
    check("checkpoint" not in run.said(), "it speaks of checkpoints", run.said())
    folder.check_nothing_left()


def memory_limits_evaluations(folder, draw):
    """Where memory runs out, an evaluation takes smaller passes; it begins with those of the
    training that wrote the checkpoint."""
    program = folder.program("greedy_validation")
    train = folder.run(program, "--replicas", "2")
    train.expect_end(0)
    expected = train.end_event()["validation"]
    for replicas in ("1", "2"):
        run = folder.run(program, "--evaluate", "--replicas", replicas)
        run.expect_end(0)
        same_metrics(run.end_event()["validation"], expected)
        check(len(run.of("generation")) == 1, "it does not know the limit", run.events)
        run = folder.run(program, "--evaluate", "--replicas", replicas, "--name", "elsewhere",
                         "--from", train.end_event()["model"])
        run.expect_end(0)
        same_metrics(run.end_event()["validation"], expected)
        check(not run.of("failure"), "a replica failed", run.of("failure"))
        check(len(run.of("generation")) == (1 if replicas == "1" else 2), "they do not begin again "
              "together, or more than once", run.of("generation"))
    run = folder.run(program, "--evaluate", "--set", "batch.atomic_min=12", "--name", "hopeless",
                     "--from", train.end_event()["model"], TMPDIR=temporary(folder))
    run.expect_end(1)
    check(os.listdir(run.of("start")[0]["log_dir"]), "its logs are gone")
    check("allocate memory" in run.end_event()["reason"], "an odd reason", run.end_event())


def cannot_evaluate(folder, draw):
    """What is missing is told, and nothing is written."""
    cases = [("slow", [], 1, "name no validation data"),
             ("slow", ["--set", "data.validation_fraction=0.25"], 1, "no checkpoint in"),
             ("samples", ["--set", "data.validation_fraction=0.25"], 1, "no validation_step"),
             ("mlp", ["--from", "nowhere.pt"], 1, "nowhere.pt"),
             ("mlp", ["--fresh"], 2, "--fresh has no effect")]
    for program, arguments, code, sentence in cases:
        run = folder.run(folder.program(program), "--evaluate", *arguments,
                         TMPDIR=temporary(folder))
        run.expect_end(code)
        check(sentence in run.said(), f"it does not say {sentence!r}", run.said())
        check(not os.path.exists(folder.file(program + ".run")), "it left a folder")


def write_safetensors(path, header, elements):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + elements)
    return path


def starts_with_weights(folder, draw):
    """A new run begins with the weights of a model.pt, and of the .safetensors file made from it; a
    run that has a checkpoint continues from that."""
    _, model, expected = trained(folder)
    program = folder.program("mlp")
    safe = folder.file("mlp.safetensors")
    code, said, problem = folder.command("export", model, safe)
    check(code == 0 and "4 tensors" in said, "not exported", said, problem)
    for name, weights, replicas in (("a", model, "1"), ("b", safe, "2")):
        run = folder.run(program, "--name", name, "--from", weights, "--replicas", replicas, *STAND)
        run.expect_end(0)
        (start,) = run.of("warm_start")
        check(start["path"] == weights and start["tensors"] == 4 and not start["kept"] and
              not start["skipped"], "other weights", start)
        same_metrics(run.end_event()["validation"], expected)
        check("starting from" in run.said(), "the user is not told", run.said())

    run = folder.run(program, "--name", "c", "--from", safe, "--set", "epochs=100000")
    run.wait_step(10)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    os.remove(safe)
    run = folder.run(program, "--name", "c", "--from", safe, "--set", "max_steps=1")
    run.expect_end(0)
    check(run.of("resume") and not run.of("warm_start"), "it did not continue")


def other_names(folder, draw):
    """Names of other programs are changed by rules; what does not match is named, and refused
    unless it is ignored."""
    _, model, expected = trained(folder)
    program = folder.program("mlp")
    safe = folder.file("mlp.safetensors")
    check(folder.command("export", model, safe)[0] == 0, "not exported")
    header, elements = read_safetensors(safe)
    header.pop("__metadata__")
    renamed = {"module." + name.replace("output", "head"): entry for name, entry in header.items()}
    write_safetensors(folder.file("renamed.safetensors"), renamed, elements)
    run = folder.run(program, "--from", folder.file("renamed.safetensors"), "--name", "r")
    run.expect_end(1)
    check("4 tensors are missing in it" in run.said() and "hidden_weight" in run.said() and
          "from.rename" in run.said() and not run.of("step"), "another error", run.said())
    rules = 'from.rename=["module.head_*=output_*", "module.*=*"]'
    run = folder.run(program, "--from", folder.file("renamed.safetensors"), "--name", "r", "--set",
                     rules, *STAND)
    run.expect_end(0)
    same_metrics(run.end_event()["validation"], expected)

    # Another head: of eight classes instead of four, and with a tensor more.
    other = {name: entry for name, entry in header.items() if name.startswith("hidden")}
    bytes_of = {name: elements[slice(*entry["data_offsets"])] for name, entry in other.items()}
    bytes_of["output_weight"] = bytes(4 * 8 * 32)
    other["output_weight"] = {"dtype": "F32", "shape": [8, 32]}
    bytes_of["scale"] = bytes(2)
    other["scale"] = {"dtype": "BF16", "shape": []}
    content = b""
    for name, entry in other.items():
        entry["data_offsets"] = [len(content), len(content) + len(bytes_of[name])]
        content += bytes_of[name]
    path = write_safetensors(folder.file("other.safetensors"), other, content)
    run = folder.run(program, "--from", path, "--name", "o")
    run.expect_end(1)
    for word in ("1 tensor is missing in it: output_bias", "not in the model: scale",
                 "output_weight is float32 [4, 32], in the file float32 [8, 32]"):
        check(word in run.said(), f"it does not say {word!r}", run.said())
    run = folder.run(program, "--from", path, "--name", "o", "--set",
                     'from.ignore=["output_*", scale]', *STAND)
    run.expect_end(0)
    (start,) = run.of("warm_start")
    check(start["tensors"] == 2 and start["kept"] == ["output_bias", "output_weight"] and
          start["skipped"] == ["scale"], "other weights", start)

    damaged = write_safetensors(folder.file("damaged.safetensors"), other, content[:-1])
    run = folder.run(program, "--from", damaged, "--name", "d")
    run.expect_end(1)
    check("not a valid safetensors file" in run.said(), "another error", run.said())


main(evaluates, evaluation_survives, memory_limits_evaluations, cannot_evaluate,
     starts_with_weights, other_names)
