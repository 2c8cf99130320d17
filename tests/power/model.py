"""The model of a run and exported weights, when the power fails or the disk does."""

import os
import signal

from support import check, main, paced, read, wait_until

from recording import ERRORS, Recording

PLACES = ["--output", "disk/run", "--checkpoint-dir", "disk/run", "--log-dir", "disk/run/logs"]
SHORT = ["--set", "max_steps=12", "--set", "checkpoint_interval_s=0.05", "--set",
         "data.validation_fraction=0.25", "--set", "validate_every_epochs=0.2", "--set",
         "best={metric: loss, mode: min}"]


def recording_in(folder):
    recording = Recording(folder)
    folder.material = os.path.join(os.path.dirname(folder.material), "elastic", "programs")
    first = paced(folder.material)["LD_PRELOAD"]
    recording.environment["LD_PRELOAD"] = f"{first}:{recording.environment['LD_PRELOAD']}"
    return recording


def train(recording, *settings, code=0):
    folder = recording.folder
    run = folder.run(folder.program("slow"), *PLACES, *SHORT, *settings, **recording.environment)
    run.expect_end(code, 200)
    return run


def export(recording, name):
    return recording.folder.command(
        "export", recording.file("run", "model.pt"), recording.file(name),
        environment=recording.folder.environment | recording.environment)


def cuts(folder, draw):
    """A model or weights that were announced are there after a power cut at any point."""
    own = folder.material
    recording = recording_in(folder)
    for name in ("run/model.pt", "run/best.pt"):
        recording.mark(f"begin {name}")
    train(recording)
    for name in ("run/model.pt", "run/best.pt"):
        recording.done_file(name)
    for name in ("weights.safetensors", "weights.pt"):
        for _ in range(2):  # a new file, and one that replaces another
            code, _, err = export(recording, name)
            check(code == 0, "no export", err)
            recording.done_file(name)
    folder.material = own
    recording.replay("model", draw)
    check(recording.points > 200, "few points", recording.points)


def export_errors(folder, draw):
    """An export that fails is told, and leaves the earlier file, or the new one."""
    recording = recording_in(folder)
    train(recording)
    model, count = recording.file("weights.safetensors"), 0
    code, _, err = export(recording, "weights.safetensors")
    check(code == 0, "no export", err)
    with open(model, "rb") as file:
        whole = file.read()
    for kind in ("write", "sync", "close", "rename", "open"):
        for error in ERRORS:
            for call in range(1, 100):
                with recording.failing(kind, call, error) as hits:
                    code, _, err = export(recording, "weights.safetensors")
                    hit = hits() > 0
                with open(model, "rb") as file:
                    check(file.read() == whole, "another content", kind, call, error)
                check(not os.path.exists(model + ".part"), "a part is left", kind, call, error)
                check(code == (1 if hit else 0) and (err or not hit), "not told", kind, call, err)
                count += hit
                if not hit:
                    break
    check(count >= 10, "few calls", count)


def run_errors(folder, draw):
    """A run whose model or final checkpoint is not on the disk fails, and says what to do."""
    recording = recording_in(folder)
    folder_of_run = recording.file("run")
    # Model files can be written, but checkpoints cannot: each begins with a folder.
    train(recording, "--set", "max_steps=1")
    with recording.failing("folder", 1, ERRORS[1], lasting=True):
        run = train(recording, code=1)
    said = run.end_event()["reason"]
    check("final checkpoint" in said and "run the same command again" in said, "what to do", said)
    check(os.path.getsize(os.path.join(folder_of_run, "model.pt")) > 1000, "no model")
    train(recording)

    run = folder.run(folder.program("slow"), *PLACES, *SHORT, "--fresh", **recording.environment)
    run.wait_step(3)
    with recording.failing("sync", 1, ERRORS[0], lasting=True):
        logs = os.path.join(folder_of_run, "logs")
        wait_until(lambda: any("is kept in memory" in read(os.path.join(logs, log))
                               for log in os.listdir(logs)), "it waits")
        check(not run.of("end"), "an end was announced")
        run.signal(signal.SIGTERM)
        run.end()
        check(run.process.returncode != 0, "a success")
    train(recording)


main(cuts, export_errors, run_errors)
