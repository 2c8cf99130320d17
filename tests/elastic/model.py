"""Archives from and for Python: one that torch.jit.save wrote is trained, and the model.pt that comes
of it is loaded by torch.jit.load. Needs a Python with torch in ADAPTDL_TEST_PYTHON; skipped (77)
without."""

import os
import subprocess
import sys

from harness import check, main

PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")

WRITE = '''
import sys
from typing import Dict, List
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

settings = "epochs: 4\\ndata:\\n  train: [{path: points.npy}, {path: labels.npy}]\\n"
settings += "batch: {initial: 24}\\noptimizer: {kind: adam, lr: 0.01}\\nformat: 1\\n"
torch.jit.save(torch.jit.script(Net()), sys.argv[1], _extra_files={"adaptdl.yaml": settings})
'''

READ = '''
import sys
import torch
model = torch.jit.load(sys.argv[1])
assert not model.training
x = torch.randn(7, 16)
assert model(x).shape == (7, 4)
assert int(model.state_dict()["layers.1.num_batches_tracked"]) > 100
assert torch.equal(model(x)[:3], model(x[:3])) or torch.allclose(model(x)[:3], model(x[:3]))
'''


def python(folder, code, *arguments):
    script = os.path.join(folder.path, "script.py")  # torch.jit.script wants to read its source
    with open(script, "w") as file:
        file.write(code)
    done = subprocess.run([PYTHON, script, *arguments], capture_output=True, text=True)
    check(done.returncode == 0, "Python says:", done.stderr)


def from_python_to_python(folder, draw):
    program = folder.program("net")
    python(folder, WRITE, program)
    run = folder.run(program, "--replicas", "1:2", "--replicas-at", "0:1,30:2")
    run.expect_end(0, 200)
    run.check_steps(last=160)
    losses = run.losses()
    check(losses[160] < 0.8 * losses[1], "it did not learn", losses[1], losses[160])
    python(folder, READ, os.path.join(folder.path, "net.run", "model.pt"))


if not PYTHON:
    print("skipped: no ADAPTDL_TEST_PYTHON")
    sys.exit(77)
main(from_python_to_python)
