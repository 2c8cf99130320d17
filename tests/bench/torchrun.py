"""How long a script for torchrun stands still when one of its two replicas is killed (kill -9),
under `adaptdl torchrun` and under PyTorch's torchrun.

Usage: torchrun.py ADAPTDL PYTHON [--trials 10]
PYTHON can import torch. The script trains with DistributedDataParallel (gloo) and saves in every
step. Both launchers keep one alive, their replicas are killed in turn, and in between the same two
processes are started without a launcher: their time to the first step, which depends on PyTorch and
the disk, is deducted. Prints one line of JSON for each figure; `nice -n -10` makes other load
matter less.

standstill: from the last step before the kill to the first after it. program_begins: from the kill
to the first statement of the script that is started again, so without any of its own time.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from figures import emit, note
from support import Processes, end, end_by_sigterm, free_port, kill, read, wait_until, write

LONG_S = 120

PROGRAM = '''
import json, os, time

def log(what, step):
    line = json.dumps({"what": what, "t": time.monotonic(), "rank": int(os.environ["RANK"]),
                       "pid": os.getpid(), "step": step})
    with open(FOLDER + "/steps", "a") as file:
        file.write(line + "\\n")

FOLDER = os.environ["BENCH_FOLDER"]
log("begin", 0)
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Linear(64, 1)
done = 0
if os.path.exists(FOLDER + "/saved.pt"):
    saved = torch.load(FOLDER + "/saved.pt", weights_only=True)
    model.load_state_dict(saved["model"])
    done = saved["step"]
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    done += 1
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "step": done}, FOLDER + "/saved.new")
        os.replace(FOLDER + "/saved.new", FOLDER + "/saved.pt")
    log("step", done)
    time.sleep(0.05)
'''


class Launched:
    """The script under one launcher, or started by hand; its steps so far."""

    def __init__(self, processes, folder, commands, environment):
        os.mkdir(folder)
        self.folder = folder
        self.begun = time.monotonic()
        with open(os.path.join(folder, "log"), "wb") as log:
            self.children = [
                # The kernel divides the cores among sessions first, and launchers make them.
                processes.start(command, start_new_session=True, stdout=log, stderr=log, cwd=folder,
                                env=environment | {"BENCH_FOLDER": folder} | more)
                for command, more in commands]

    def lines(self):
        path = os.path.join(self.folder, "steps")
        if not os.path.exists(path):
            return []
        # The last line may not be complete yet.
        return [json.loads(line) for line in read(path).split("\n")[:-1]]

    def wait_step(self, pids=(), after=0.0):
        """The first step of rank 0, after a time and not by these processes."""
        def find():
            return next((line for line in self.lines() if line["what"] == "step" and
                         line["rank"] == 0 and line["t"] > after and line["pid"] not in pids), None)
        return wait_until(find, "a step in " + self.folder, LONG_S, every=0.02,
                          tell=lambda: read(os.path.join(self.folder, "log"))[-2000:])

    def killed(self, draw):
        """Kills one of two; returns its standstill, and the time until the script began again."""
        time.sleep(0.3 + draw.random() * 0.1)  # a random time within a step
        old = self.lines()
        victim = draw.randrange(2)
        newest = {line["rank"]: line["pid"] for line in old}
        pids = {line["pid"] for line in old}
        at = time.monotonic()
        kill(newest[victim])
        first = self.wait_step(pids)
        lines = self.lines()
        last = max(line["t"] for line in lines if line["what"] == "step" and line["pid"] in pids)
        begin = max(line["t"] for line in lines if line["what"] == "begin" and
                    line["pid"] not in pids)
        return first["t"] - last, begin - at

    def stop(self):
        for child in self.children:
            end(child)


def ranks(python, script):
    """The commands of two replicas without a launcher."""
    port = str(free_port())
    return [([python, "-u", script],
             {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port,
              "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}) for rank in range(2)]


def measure(options, folder, processes):
    script = write(os.path.join(folder, "train.py"), PROGRAM)
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("ADAPTDL_", "PET_"))} | {
        "HOME": folder, "XDG_STATE_HOME": folder + "/state", "XDG_RUNTIME_DIR": folder + "/runtime",
        "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1",
        # Without it, gloo's replicas that start again may meet their predecessors' addresses.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    os.mkdir(folder + "/runtime", 0o700)
    flags = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1000", script]
    launchers = {"adaptdl": [options.adaptdl, "torchrun", *flags],
                 "torchrun": [options.python, "-m", "torch.distributed.run", *flags]}
    runs = {name: Launched(processes, os.path.join(folder, name), [(command, {})], environment)
            for name, command in launchers.items()}
    for run in runs.values():
        run.wait_step()
    draw = random.Random(options.seed)
    starts, still, begins = [], {name: [] for name in runs}, {name: [] for name in runs}
    for trial in range(options.trials):
        for name in sorted(runs, reverse=trial % 2 == 1):
            pause, begin = runs[name].killed(draw)
            still[name].append(pause)
            begins[name].append(begin)
        alone = Launched(processes, os.path.join(folder, f"alone-{trial}"),
                         ranks(options.python, script), environment)
        starts.append(alone.wait_step()["t"] - alone.begun)
        alone.stop()
        note(f"trial {trial}: {still['adaptdl'][-1]:.2f} s, torchrun {still['torchrun'][-1]:.2f} s,"
             f" start {starts[-1]:.2f} s")
    for run in runs.values():
        run.stop()
    start = emit("program_start", starts, "s")
    rest = {}
    for name in runs:
        emit("standstill", still[name], "s", launcher=name)
        rest[name] = [value - own for value, own in zip(still[name], starts)]
        emit("standstill_less_start", rest[name], "s", launcher=name)
        emit("program_begins", begins[name], "s", launcher=name)
    theirs = statistics.median(still["torchrun"]) - start
    emit("standstill_less_median_start", [value - start for value in still["adaptdl"]], "s",
         launcher="adaptdl", at_most=theirs / 2, torchrun_s=theirs)
    emit("program_begins_ratio", [ours / its for ours, its in
                                  zip(begins["adaptdl"], begins["torchrun"])], "of torchrun's")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adaptdl")
    parser.add_argument("python")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.adaptdl, options.python = map(os.path.abspath, (options.adaptdl, options.python))
    end_by_sigterm()
    processes = Processes()
    with tempfile.TemporaryDirectory(prefix="adaptdl-bench-") as folder:
        try:
            measure(options, folder, processes)
        finally:
            for child in processes.children:  # a launcher that is killed leaves its replicas
                if child.poll() is None:
                    child.send_signal(signal.SIGTERM)
            for child in processes.children:
                end(child)
            processes.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
