"""Archives from and for Python: trains an archive written by torch.jit.save, and loads its model.pt
with torch.jit.load. Needs a Python with torch and numpy in ADAPTDL_TEST_PYTHON; skipped (77)
without."""

import math
import os
import re
import signal

from support import check, main, read, run_command, skip_all

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")

WRITE = '''
import sys
from typing import Dict, List
import torch
from torch import Tensor, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(),
                                    nn.Linear(WIDTH, 4))

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
# Evaluation does not depend on who else is in the batch, but for rounding.
assert torch.allclose(model(x)[:3], model(x[:3]), rtol=1e-4, atol=1e-4)
'''


# The data in README.md and adaptdl-train(5): 64 values per sample, in the shape of the images of
# `adaptdl init digits`, ten classes. The class is the index of the largest of the first ten values,
# so that it can be learned.
DATA = """
import numpy
images = numpy.random.default_rng(1).integers(0, 17, (1000, 64))
numpy.save("images.npy", images.reshape(-1, 1, 8, 8).astype("uint8"))
numpy.save("labels.npy", images[:, :10].argmax(1))
"""

LOAD = """
import sys
import torch
model = torch.jit.load(sys.argv[1])
assert model(torch.randn(7, 1, 8, 8)).shape == (7, 10)
"""


def python(folder, code, *arguments):
    script = folder.write("script.py", code)  # torch.jit.script reads its source
    run_command([PYTHON, script, *arguments], 0, 300, cwd=folder.path)


def write_net(folder, program, width=32):
    python(folder, WRITE.replace("WIDTH", str(width)), program)


def model_of(run):
    return os.path.join(run.of("start")[0]["output_dir"], "model.pt")


def from_python_to_python(folder, draw):
    """Replicas join, stop and resume."""
    program = folder.program("net")
    write_net(folder, program, 2048)  # so wide that a reader of every step keeps up
    run = folder.run(program, "--replicas", "1:2", "--replicas-at", "0:1", "--set",
                     "epochs=1000000")
    run.wait_step(10)
    run.request(request="scale", replicas=2)
    run.wait_replicas(2)
    run.wait_steps_more(10)
    run.request(request="scale", replicas=1)
    run.wait_event("generation", to=1, **{"from": 2})
    run.wait_steps_more(10)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()
    steps, losses = run.last_step(), run.losses()

    epochs = steps // 40 + 6
    again = folder.run(program, "--set", f"epochs={epochs}")
    again.expect_end(0, 200)
    again.check_steps(first=steps + 1, last=40 * epochs)
    losses |= again.losses()
    # The loss of a single batch is noisy.
    last = sum(losses[step] for step in range(40 * epochs - 39, 40 * epochs + 1)) / 40
    check(last < 0.8 * losses[1], "it did not learn", losses[1], last)
    python(folder, READ, model_of(again))


def precisions(folder, draw):
    """In 16 bits the losses are nearly those of 32, and what overflows is not applied."""
    program = folder.program("net")
    write_net(folder, program)
    losses = {}
    for precision in ("fp32", "bf16", "fp16"):
        run = folder.run(program, "--fresh", "--replicas", "2", "--set", f"precision={precision}")
        run.expect_end(0, 200)
        losses[precision] = [event["loss"] for event in run.of("step")]
        if precision == "fp16":
            check(run.end_event()["skipped"] <= 16, "the loss scale did not settle",
                  run.end_event())
    for precision in ("bf16", "fp16"):
        for i in (0, -1):
            check(abs(losses[precision][i] - losses["fp32"][i]) < 0.1 * losses["fp32"][0],
                  f"{precision} is far from fp32", losses[precision][i], losses["fp32"][i])
        check(losses[precision][0] != losses["fp32"][0], f"{precision} computed in 32 bits")


def documented(folder, code, settings):
    """The documented examples train exactly as printed."""
    python(folder, DATA)
    folder.write("adaptdl.yaml", settings)
    python(folder, code)
    run = folder.run(folder.file("train.pt"), "--replicas", "2")
    run.expect_end(0, 200)
    last = list(run.losses().values())[-5:]
    # Guessing among ten classes has a loss of log 10.
    check(sum(last) / len(last) < 0.7 * math.log(10), "it did not learn", last)
    python(folder, LOAD, model_of(run))


def readme(folder, draw):
    code, settings = re.findall(r"```(?:python|yaml)\n(.*?)```",
                                read(os.path.join(ROOT, "README.md")),
                                re.S)
    check(len(code.splitlines()) <= 10, "the ten lines have become", len(code.splitlines()))
    documented(folder, code, settings)


def manual(folder, draw):
    page = read(os.path.join(ROOT, "man", "adaptdl-train.5")).replace("\\-", "-")
    blocks = re.findall(r"\.nf\n\.RS 4\n(.*?)\.RE", page, re.S)
    code, settings = [block for block in blocks if "import torch" in block or "format: 1" in block]
    documented(folder, code, settings)


SAME = """
import json, struct, sys
import torch

model, state, safe = sys.argv[1:]
expected = torch.jit.load(model).state_dict()
read = torch.load(state, weights_only=True)
assert list(read) == list(expected), (list(read), list(expected))
with open(safe, "rb") as file:
    content = bytearray(file.read())
length, = struct.unpack("<Q", content[:8])
header = json.loads(content[8:8 + length])
types = {"F32": torch.float32, "I64": torch.int64}
assert set(header) - {"__metadata__"} == set(expected)
for name, tensor in expected.items():
    assert torch.equal(read[name], tensor), name
    entry = header[name]
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    values = torch.frombuffer(content[begin:end], dtype=types[entry["dtype"]])
    assert torch.equal(values.reshape(entry["shape"]), tensor), name
"""

SAVE = """
import sys
import torch
state = torch.jit.load(sys.argv[1]).state_dict()
torch.save({"net." + name: tensor for name, tensor in state.items()}, sys.argv[2])
"""


def weights_to_and_from_python(folder, draw):
    """torch reads what `adaptdl export` writes, and a run starts with what torch.save wrote."""
    program = folder.program("net")
    write_net(folder, program)
    run = folder.run(program, "--set", "epochs=1")
    run.expect_end(0, 200)
    state, safe = folder.file("state.pt"), folder.file("net.safetensors")
    for target in (state, safe):
        code, said, problem = folder.command("export", model_of(run), target)
        check(code == 0 and "9 tensors" in said, "it is not exported", said, problem)
    python(folder, SAME, model_of(run), state, safe)

    saved = folder.file("saved.pt")
    python(folder, SAVE, model_of(run), saved)
    again = folder.run(program, "--name", "again", "--from", saved, "--set", "max_steps=1", "--set",
                       'from.rename=["net.*=*"]')
    again.expect_end(0, 200)
    check(again.of("warm_start")[0]["tensors"] == 9, "not all weights", again.of("warm_start"))
    early, late, new = run.losses()[1], run.losses()[run.last_step()], again.losses()[1]
    check(abs(new - late) < abs(new - early), "it began anew", early, late, new)


if not PYTHON:
    skip_all("ADAPTDL_TEST_PYTHON names no Python with torch; ./bootstrap test sets it")
main(from_python_to_python, precisions, weights_to_and_from_python, readme, manual)
