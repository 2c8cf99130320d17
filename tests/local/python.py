"""Unmodified programs under the service: one of Python AdaptDL 0.2.11, 1 -> 2 -> 1 replicas, to its
end; and one for torchrun.

ADAPTDL_TEST_PYTHON names a Python that can import torch and adaptdl; without it the test is skipped
with a message.
"""

import json
import re

from support import PYTHON, check, main, python_has, service, skip_all, wait_until

PROGRAM = '''
import os, time
import torch
import adaptdl.collective
import adaptdl.torch as adl
import adaptdl.torch._metrics
from adaptdl.env import replica_rank, num_replicas

adaptdl.torch._metrics._PREV_REPORT = 0  # it reports at once, and not only after 30 s
adl.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(2000, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = adl.AdaptiveDataLoader(data, batch_size=20, shuffle=True, drop_last=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model = adl.AdaptiveDataParallel(model, optimizer)
for epoch in adl.remaining_epochs_until(10000):
    for a, b in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
    print("epoch", epoch, "on", num_replicas(), "loss", float(loss), flush=True)
    if adaptdl.collective.broadcast(os.path.exists("finish")):
        break
print("finished", flush=True)
'''

# Loads a pickle that somebody else wrote, which torch.load must refuse; in AdaptDL's loader.
STRANGER = '''
import pickle
import torch
import adaptdl.torch as adl

class Evil:
    def __reduce__(self):
        return print, ("it ran",)

class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 20
    def __getitem__(self, index):
        return torch.load("evil.pt")

with open("evil.pt", "wb") as file:
    pickle.dump(Evil(), file, protocol=2)
adl.init_process_group("gloo")
model = torch.nn.Linear(8, 1)
model = adl.AdaptiveDataParallel(model, torch.optim.SGD(model.parameters(), lr=0.01))
for epoch in adl.remaining_epochs_until(1):
    for images in adl.AdaptiveDataLoader(Images(), batch_size=20):
        pass
'''

# All-reduces in the environment of torchrun.
DISTRIBUTED = '''
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(os.environ["ROLE_NAME"], "rank", dist.get_rank(), "sees", int(total), flush=True)
dist.destroy_process_group()
'''


def rescaled(folder, random):
    script = folder.write("train.py", PROGRAM)
    with service(folder, "--slots", "2") as local:
        name = local.submit(PYTHON, script, max_replicas=1)
        epochs = re.compile(r"epoch (\d+) on (\d+) loss")

        def trained_on(replicas, after=-1):
            done = [(int(e), int(r)) for e, r in epochs.findall(local.logs(name))]
            return any(r == replicas and e > after for e, r in done) and max(e for e, r in done)

        def hints():
            return json.loads(local.job(name)["hints"] or "{}")

        def told_of(replicas):
            told = hints()  # kept once the service has read them, and given to the scheduler
            return told.get("maxProfiledReplicas") == replicas and told.get("perfParams")

        wait_until(lambda: trained_on(1) is not False, "an epoch on 1", 120)
        wait_until(lambda: told_of(1), "hints of 1 replica")
        check(0 < hints()["rescaleCost"] < 120, "the cost of a restart is estimated", hints())
        local.ask("scale", name=name, min=2, max=2)
        # Two starts: the first finds that torch.load refuses AdaptDL's checkpoint.
        wait_until(lambda: trained_on(2) is not False, "an epoch on 2 replicas", 240)
        wait_until(lambda: told_of(2), "hints of 2 replicas")
        last = max(int(e) for e, r in epochs.findall(local.logs(name)))
        local.ask("scale", name=name, min=1, max=1)
        wait_until(lambda: trained_on(1, last) is not False, "an epoch on 1 replica again", 120)
        folder.write("finish")
        local.wait_end(name, timeout=120)
        done = [int(e) for e, r in epochs.findall(local.logs(name))]
        check(set(done) == set(range(max(done) + 1)), "every epoch is done", done)
        check(local.logs(name).count("finished") >= 1, "its end", local.logs(name)[-500:])
        # AdaptDL's checkpoints are pickles: the first restart finds that out.
        told = [event["next"] for event in local.run_events(name) if event["event"] == "failure"]
        check(told == ["all replicas restart with TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"], told)


def strangers_pickle(folder, random):
    script = folder.write("train.py", STRANGER)
    with service(folder, "--slots", "1") as local:
        code, out, err = local.command("submit", "--max-restarts", "0", "--wait", "--", PYTHON,
                                       script, timeout=120)
        check(code == 100, "it did not fail", out, err)
        log = local.logs(out.strip())
        check("Weights only load failed" in log and "it ran" not in log, "refused", log)


def for_torchrun(folder, random):
    script = folder.write("distributed.py", DISTRIBUTED)
    with service(folder, "--slots", "2") as local:
        code, out, err = local.command("submit", "--nproc-per-node", "2", "--max-restarts", "0",
                                       "--role", "trainer", "--tee", "3", "--wait", "--", PYTHON,
                                       script, timeout=120)
        check(code == 0, "it failed", out, err)
        printed = sorted(re.findall("trainer rank . sees .", local.logs(out.strip())))
        check(printed == ["trainer rank 0 sees 2", "trainer rank 1 sees 2"], "odd output", printed)


if not python_has("adaptdl"):
    skip_all("ADAPTDL_TEST_PYTHON names no Python with torch and adaptdl")
main(rescaled, strangers_pickle, for_torchrun)
