"""Unmodified torchrun programs under `adaptdl run -- CMD` and `adaptdl torchrun`: killed, rescaled,
failing.

ADAPTDL_TEST_PYTHON names a Python that can import torch; without it the test is skipped with a
message.
"""

import json
import os
import signal

from support import (DDP, PYTHON, Command, check, kill, main, python_has, read, run_command,
                     skip_all, wait_until)

# torch.distributed.checkpoint: every rank writes its part, and reads it with any number of ranks.
SHARDED = '''
import os, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

torch.set_num_threads(1)
dist.init_process_group("gloo")
state = {"a": torch.full((8,), 1.0), "step": torch.tensor(7)}
if os.path.exists("sharded/.metadata"):
    state = {"a": torch.zeros(8), "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id="sharded")
    print("loaded", state["a"].sum().item(), state["step"].item(), "of", dist.get_world_size(),
          flush=True)
else:
    dcp.save(state, checkpoint_id="sharded")
    print("saved of", dist.get_world_size(), flush=True)
dist.barrier()
dist.destroy_process_group()
'''

SAVES = '''
import os, signal, time

def save(*_):
    open("saved-" + os.environ["RANK"], "w").close()
    os._exit(143)

signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(0.02)
'''

INTERRUPTED = '''
import os, time

try:
    print("ready", flush=True)
    while True:
        time.sleep(0.02)
except KeyboardInterrupt:
    open("saved-" + os.environ["RANK"], "w").close()
'''

SCONTROL = """#!/bin/sh
case $1 in
show) echo "JobId=1 JobState=RUNNING BatchFlag=1 Requeue=1 PreemptTime=None" ;;
requeue) touch requeued ;;
esac
"""


def killed_and_rescaled(folder, random):
    """kill -9 of one of two: both start again from the snapshot. `adaptdl scale`: the program
    saves, exits with 143, and continues with three."""
    script = folder.write("train.py", DDP)
    run = Command(folder, "run", "--replicas", "2", "--", PYTHON, script, "400", name="train")
    victim = random.randrange(2)
    _, _, _, pid, _ = run.wait_epoch("epoch 3 on 2",
                                     lambda e, r, w, p, n: e >= 3 and w == 2 and r == victim)
    kill(pid)
    again = run.wait_epoch("both again", lambda e, r, w, p, n: n == 1 and w == 2)
    check(again[0] >= 3, "it did not continue", again)
    run_command([folder.binary, "scale", "train", "3"], 0, env=folder.environment)
    more = run.wait_epoch("three", lambda e, r, w, p, n: w == 3 and r == 2)
    check(more[0] > again[0] and more[4] == 1, "a rescale is no failure", more)
    check("killed by signal 9" in read(run.err), "the kill is not told", read(run.err))
    run.process.send_signal(signal.SIGINT)
    run.expect_end(130)
    check(os.path.exists(folder.file("train.run/logs/replica-2.log")), "no log")
    folder.check_nothing_left()


def first_error(folder, random):
    """The replica that failed first is told with its error; torchrun's flags and exit code."""
    script = folder.write("train.py", DDP)
    run = Command(folder, "torchrun", "--standalone", "--nproc_per_node=2", "--max-restarts", "1",
                  "--tee", "3", script, "5", name="train", environment={"FAIL": "1"})
    run.expect_end(1)
    said = read(run.err)
    for part in ("replica 1: exit code 1: ValueError: odd number; all replicas restart",
                 "Replica 1 failed first: exit code 1: ValueError: odd number",
                 'raise ValueError("odd number")'):
        check(part in said, f"not told: {part}", said)
    check("[default1]:epoch 2 rank 1 of 2" in run.printed(), "no prefix", run.printed())
    check({e[4] for e in run.epochs()} == {0, 1}, "the restarts are odd", run.epochs())
    folder.check_nothing_left()


def sharded_checkpoint(folder, random):
    """torch.distributed.checkpoint writes with 2 and reads with 3; standard output is theirs."""
    script = folder.write("sharded.py", SHARDED)
    first = Command(folder, "torchrun", "--nproc-per-node", "2", script, name="sharded")
    first.expect_end(0)
    check(first.printed() == "saved of 2\n" * 2, "odd output", first.printed())
    second = Command(folder, "torchrun", "--nproc-per-node", "3", script, name="sharded")
    second.expect_end(0)
    check(second.printed() == "loaded 8.0 7 of 3\n" * 3, "odd output", second.printed())
    folder.check_nothing_left()


def virtual_local_rank(folder, random):
    """Each replica sees the GPU of its rank only, as its first one; without a GPU it is refused."""
    script = folder.write("show.py", "import os; print(*(os.environ[name] for name in ("
                          "'RANK', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'CUDA_VISIBLE_DEVICES')))")
    words = ["torchrun", "--virtual-local-rank", "--nproc-per-node", "2", script]
    run = Command(folder, *words, name="", environment={"CUDA_VISIBLE_DEVICES": "4,7"})
    run.expect_end(0)
    check(sorted(run.printed().splitlines()) == ["0 0 2 4", "1 0 2 7"], "odd", run.printed())
    run = Command(folder, *words, name="", environment={"CUDA_VISIBLE_DEVICES": "4"})
    run.expect_end(1)
    check("replica 1 has no GPU" in read(run.err), "the reason", read(run.err))
    folder.check_nothing_left()


def ends_instead(folder, random):
    """A program that exits with 0 on SIGTERM has finished when it is scaled, and says so."""
    script = "trap 'exit 0' TERM; echo started; while :; do sleep 0.02; done"
    run = Command(folder, "run", "--name", "ends", "--replicas", "2", "--", "sh", "-c", script,
                  name="ends")
    wait_until(lambda: run.printed().count("started") == 2, "both run")
    run_command([folder.binary, "scale", "ends", "1"], 0, env=folder.environment)
    run.expect_end(0)
    check("exited with 0 when asked to restart (rescaling from 2 to 1 replicas): taken for finished"
          in read(run.err), "not told", read(run.err))
    folder.check_nothing_left()


def slurm_notice(folder, random):
    """The signal by which Slurm announces the end of a job's time leaves time to save; the job is
    requeued."""
    script = folder.write("train.py", SAVES)
    os.chmod(folder.write("bin/scontrol", SCONTROL), 0o755)
    slurm = {"SLURM_JOB_ID": "1", "PATH": f"{folder.file('bin')}:{os.environ['PATH']}"}
    saved = [folder.file(f"saved-{rank}") for rank in range(2)]
    for words in (["run", "--replicas", "2", "--", PYTHON, script],
                  ["torchrun", "--nproc-per-node", "2", script]):
        run = Command(folder, *words, name="train", environment=slurm)
        wait_until(lambda run=run: run.printed().count("ready") == 2, "both run")
        run.process.send_signal(signal.SIGUSR1)
        run.expect_end(143)
        for file in (*saved, folder.file("requeued")):
            check(os.path.exists(file), f"no {file}", read(run.err))
            os.remove(file)
        folder.check_nothing_left()


def ctrl_c(folder, random):
    """Ctrl-C is a KeyboardInterrupt of a script without a handler of SIGTERM, also under a shell;
    else it is SIGTERM."""
    for text in (INTERRUPTED, SAVES):
        script = folder.write("train.py", text)
        for words in ([PYTHON, script], ["sh", "-c", f"'{PYTHON}' '{script}'; exit $?"]):
            run = Command(folder, "run", "--name", "train", "--replicas", "2", "--", *words,
                          name="train")
            wait_until(lambda run=run: run.printed().count("ready") == 2, "both run")
            run.process.send_signal(signal.SIGINT)
            run.expect_end(130)
            for rank in range(2):
                os.remove(folder.file(f"saved-{rank}"))
            folder.check_nothing_left()


def side_by_side(folder, random):
    """Runs of one script and of two that start at once, with one --log-dir, leave each other be;
    also on hosts that share only the folder."""
    scripts = [folder.write(name, "import time; time.sleep(3); print('done')")
               for name in ("one.py", "other.py")]
    other_host = folder.file("other")
    os.mkdir(other_host, 0o700)
    hosts = {}, {"XDG_RUNTIME_DIR": other_host, "XDG_STATE_HOME": other_host}
    runs = [Command(folder, "torchrun", "--log-dir", folder.file("logs"), script, name="",
                    environment=host)
            for host in hosts for script in (*scripts, *scripts)]
    for run in runs:
        run.expect_end(0)
        check(run.printed() == "done\n", "odd output", run.printed(), read(run.err))
    folder.check_nothing_left()


def events(folder, random):
    """-o json: events alone on standard output."""
    script = folder.write("train.py", DDP)
    run = Command(folder, "run", "-o", "json", "--nproc-per-node", "2", "--max-restarts", "0", "--",
                  PYTHON, script, "9", name="train", environment={"FAIL": "0"})
    run.expect_end(1)
    all_events = [json.loads(line) for line in run.printed().splitlines()]
    kinds = [event["event"] for event in all_events]
    check(kinds == ["start", "generation", "failure", "end"], "odd events", kinds)
    check(all_events[2]["member"] == 0 and "odd number" in all_events[2]["reason"], "odd failure",
          all_events[2])
    check("epoch 2 rank 1" in read(run.err), "no output", read(run.err))


if not python_has("torch"):
    skip_all("ADAPTDL_TEST_PYTHON names no Python with torch")
main(killed_and_rescaled, first_error, sharded_checkpoint, virtual_local_rank, ends_instead,
     slurm_notice, ctrl_c, side_by_side, events)
