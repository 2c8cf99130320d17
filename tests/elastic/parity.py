"""Losses are PyTorch's, step by step, for any number of replicas. Needs a Python with torch and
numpy in ADAPTDL_TEST_PYTHON; skipped (77) without."""

import json
import os

from support import check, main, read, run_command, same_losses, skip_all

PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")
EPOCHS = 3

# 230 samples and a batch of 48: the last step of an epoch has 38 samples, which three replicas
# share as 13, 13 and 12. The samples come in order, as PyTorch cannot draw ours.
REFERENCE = '''
import json
import sys
from typing import List
import numpy
import torch
from torch import Tensor, nn

SAMPLES, BATCH = 230, 48

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))

    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

program, epochs, optimizer, settings = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.manual_seed(1)
numbers = numpy.random.default_rng(1)
points = numbers.normal(size=(SAMPLES, 16)).astype("float32")
labels = points[:, :4].argmax(1)
numpy.save("parity-points.npy", points)
numpy.save("parity-labels.npy", labels)
net = Net()
text = f"""format: 1
epochs: {epochs}
data:
  train: [{{path: parity-points.npy}}, {{path: parity-labels.npy}}]
  shuffle: false
batch: {{initial: {BATCH}}}
optimizer: {settings}
"""
torch.jit.save(torch.jit.script(net), program, _extra_files={"adaptdl.yaml": text})
step = eval(optimizer)(net.parameters())
losses = []
for _ in range(epochs):
    for x, y in zip(torch.from_numpy(points).split(BATCH), torch.from_numpy(labels).split(BATCH)):
        step.zero_grad()
        loss = net.training_step([x, y])
        loss.backward()
        step.step()
        losses.append(loss.item())
json.dump(losses, open("losses.json", "w"))
'''

OPTIMIZERS = {
    "lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)": "{kind: sgd, lr: 0.1, momentum: 0.9}",
    "lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)":
        "{kind: adamw, lr: 0.01, weight_decay: 0.1}",
}


def partial_steps(folder, draw):
    """Every sample counts once an epoch, also where the replicas' shares differ."""
    script = folder.write("script.py", REFERENCE)
    program = folder.program("parity")
    for optimizer, settings in OPTIMIZERS.items():
        run_command([PYTHON, script, program, str(EPOCHS), optimizer, settings], 0, 300,
                    cwd=folder.path)
        wanted = dict(enumerate(json.loads(read(folder.file("losses.json"))), start=1))
        check(len(wanted) == 5 * EPOCHS, "unexpected steps", len(wanted))
        for extra in (["--replicas", "1"], ["--replicas", "2"], ["--replicas", "3"],
                      ["--replicas", "3", "--set", "batch.accumulation=true", "--set",
                       "batch.atomic_max=8"]):
            run = folder.run(program, "--fresh", *extra)
            run.expect_end(0, 200)
            check([event["batch"] for event in run.of("step")][:5] == [48, 48, 48, 48, 38],
                  "a sample was left out or repeated", run.of("step"))
            same_losses(run.losses(), wanted, 1e-5)


if not PYTHON:
    skip_all("ADAPTDL_TEST_PYTHON names no Python with torch and numpy")
main(partial_steps)
