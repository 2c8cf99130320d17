"""A program of Python AdaptDL 0.2.11 under `adaptdl run -- CMD`: rescaled, to its end.

tests/local/python.py runs one under the service. ADAPTDL_TEST_PYTHON names a Python that can import
torch and adaptdl; without it the test is skipped with a message.
"""

import re

from support import (LONG, PYTHON, Command, check, main, python_has, read, run_command, skip_all,
                     wait_until)

EPOCHS = 40

# Slow until the file GO exists, so that there is time to rescale it.
PROGRAM = f'''
import os, time
import torch
import adaptdl.torch as adl
from adaptdl.env import num_replicas, replica_rank

torch.set_num_threads(1)
adl.init_process_group("gloo")
x = torch.randn(80, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = adl.AdaptiveDataLoader(data, batch_size=20, shuffle=True, drop_last=True)
loader.autoscale_batch_size(40, local_bsz_bounds=(5, 20))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model = adl.AdaptiveDataParallel(model, optimizer)
counts = adl.Accumulator()
for epoch in adl.remaining_epochs_until({EPOCHS}):
    for a, b in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        counts["steps"] += 1
        time.sleep(0.1 if not os.path.exists("GO") else 0)
    with counts.synchronized():
        print("epoch", epoch, "rank", replica_rank(), "of", num_replicas(), "counted",
              counts["steps"] > epoch, flush=True)
'''


def rescaled(folder, random):
    """1 -> 2 -> 1 replicas: saved at SIGTERM and continued; every epoch ends once, and the sums of
    its Accumulator go on."""
    script = folder.write("train.py", PROGRAM)
    run = Command(folder, "run", "--replicas", "1", "--", PYTHON, script, name="train")

    def epochs():
        lines = re.findall(r"epoch (\d+) rank (\d+) of (\d+) counted (\w+)", run.printed())
        return [(int(e), int(r), int(w), c) for e, r, w, c in lines]

    def wait_replicas(count, after=-1):
        return wait_until(lambda: max((e for e, _, w, _ in epochs() if w == count and e > after),
                                      default=None), f"an epoch on {count}", 2 * LONG)

    first = wait_replicas(1)
    run_command([folder.binary, "scale", "train", "2"], 0, env=folder.environment)
    second = wait_replicas(2, first)
    run_command([folder.binary, "scale", "train", "1"], 0, env=folder.environment)
    wait_replicas(1, second)
    folder.write("GO", "")
    run.expect_end(0)
    done = [e for e, rank, _, _ in epochs() if rank == 0]
    check(done == list(range(EPOCHS)), "an epoch is lost or repeated", done)
    check(all(c == "True" for *_, c in epochs()), "the sums are lost", epochs())
    # The first restart finds that AdaptDL's checkpoint is a pickle; a rescale is no failure.
    told = re.findall(r"replica \d: .*; all replicas restart.*", read(run.err))
    check(len(told) == 1 and "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1" in told[0], told, read(run.err))
    folder.check_nothing_left()


if not python_has("adaptdl"):
    skip_all("ADAPTDL_TEST_PYTHON names no Python with torch and adaptdl")
main(rescaled)
