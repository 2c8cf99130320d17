"""Programs in Python under `adaptdl run -- CMD` and `adaptdl torchrun`."""

import os
import re
import subprocess

from .checks import PATIENCE, check, wait_until
from .files import read
from .processes import run_command

# The Python that tests use for programs; None if there is none.
PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")
LONG = max(PATIENCE, 120)  # s; `import torch` alone takes many on a busy machine


# DistributedDataParallel as in PyTorch's own examples for torchrun, with a snapshot in each epoch.
# Told to end, it saves and exits 143. FAIL: the rank that raises after epoch 2, and in each later
# one.
DDP = '''
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main(epochs):
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    model = torch.nn.Linear(4, 1)
    begin = 0
    if os.path.exists("snapshot.pt"):
        snapshot = torch.load("snapshot.pt", weights_only=True)
        model.load_state_dict(snapshot["model"])
        begin = snapshot["epochs"]
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(begin, epochs):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        stop = torch.tensor([float(len(told))])
        dist.all_reduce(stop)
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "epochs": epoch + 1}, "snapshot.new")
            os.replace("snapshot.new", "snapshot.pt")
        print("epoch", epoch, "rank", rank, "of", world, "pid", os.getpid(), "restarts",
              os.environ["TORCHELASTIC_RESTART_COUNT"], "local", os.environ["LOCAL_RANK"], "of",
              os.environ["LOCAL_WORLD_SIZE"], flush=True)
        if stop.item():
            dist.destroy_process_group()
            sys.exit(143)
        if epoch >= 2 and os.environ.get("FAIL") == str(rank):
            dist.destroy_process_group()  # with it, PyTorch aborts at times while it exits
            raise ValueError("odd number")
        time.sleep(0.05)
    dist.destroy_process_group()

main(int(sys.argv[1]))
'''


def python_has(module):
    """Whether PYTHON can find the module, which is not imported: that takes seconds."""
    found = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
    return bool(PYTHON) and run_command([PYTHON, "-c", found]).returncode == 0


class Command:
    """One `adaptdl run` or `torchrun` in the test's folder; what it prints goes to files. Its
    program prints `epoch E rank R of W pid P restarts N` after each epoch. `before`: what starts it
    on another host."""

    def __init__(self, folder, *words, name, environment=None, before=()):
        self.folder, self.name = folder, name
        number = len(folder.runs)
        folder.runs.append(self)
        self.out, self.err = folder.file(f"out-{number}"), folder.file(f"err-{number}")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = folder.start([*before, folder.binary, *words],
                                        {**({"PYTHON_EXEC": PYTHON} if PYTHON else {}),
                                         **(environment or {})},
                                        stdout=out, stderr=err)

    def abandon(self):  # for folder.close()
        pass

    def says(self, sentence):
        """Waits until it has said that on standard error."""
        wait_until(lambda: sentence in read(self.err), sentence, LONG, tell=lambda: read(self.err))

    def printed(self):
        return read(self.out)

    def epochs(self):
        """(epoch, rank, world, pid, restarts) of every line."""
        lines = re.findall(r"epoch (\d+) rank (\d+) of (\d+) pid (\d+) restarts (\d+)",
                           self.printed())
        return [tuple(map(int, line)) for line in lines]

    def wait_epoch(self, sentence, condition):
        return wait_until(lambda: next((e for e in self.epochs() if condition(*e)), None), sentence,
                          LONG)

    def expect_end(self, code):
        try:
            got = self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            got = "none"
        check(got == code, f"exit code {got}, not {code}", self.printed(), read(self.err))
