"""Writes the training programs and data of the elastic tests: programs.py GENERATOR STAMP.

Writes them to the folder programs next to the file STAMP, which is written last.

Everything uses fixed seeds. The generator is make_archives.cpp; this file describes the programs.
"""

import json
import os
import random
import struct
import subprocess
import sys

CLASSIFY = """
def forward(self, x: Tensor) -> Tensor:
    x = torch.tanh(torch.linear(x, self.hidden_weight, self.hidden_bias))
    return torch.linear(x, self.output_weight, self.output_bias)

def training_step(self, batch: List[Tensor]) -> Tensor:
    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1])

def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
    logits = self.forward(batch[0])
    loss = torch.cross_entropy_loss(logits, batch[1], None, 2)
    correct = (logits.argmax(1) == batch[1]).sum()
    return {"loss": loss, "accuracy": correct, "count": torch.tensor(batch[1].size(0))}
"""
CLASSIFY_PARAMETERS = {"hidden_weight": [32, 16], "hidden_bias": [32],
                       "output_weight": [4, 32], "output_bias": [4]}

# A slow step, so that signals hit it: it waits for 10 ms (pace.cpp). The size depends on the batch,
# lest it be taken for a constant.
WORK = """    z = torch.from_file("/pace/10", False, min(1, batch[0].size(0)))
"""
SLOW = CLASSIFY.replace("""    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1])
""", WORK + """    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1]) + 0.0 * z.sum()
""")

# Each sample takes 5 ms, much longer than the rest of a step on a busy machine: more replicas are
# faster.
DIVISIBLE = SLOW.replace('"/pace/10"', '"/pace/" + str(5 * batch[0].size(0))')

# Memory suffices for passes of 8 samples.
GREEDY = CLASSIFY.replace("""    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1])
""", """    held = torch.zeros([1 if batch[0].size(0) <= 8 else 1000000000000000])
    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1]) + 0.0 * held.sum()
""")

# And here in validations.
GREEDY_VALIDATION = CLASSIFY.replace("""    logits = self.forward(batch[0])
""", """    held = torch.zeros([1 if batch[0].size(0) <= 8 else 1000000000000000])
    logits = self.forward(batch[0]) + 0.0 * held.sum()
""")

# The loss is the mean of the samples, in float64: it tells which samples a step took.
SAMPLES = """
def training_step(self, batch: List[Tensor]) -> Tensor:
""" + WORK + """    return batch[0].mean() + 0.0 * self.w.sum() * z.sum()
"""

# The loss of some steps is not a number; `spread` sets how many in a row.
NONFINITE = """
def training_step(self, batch: List[Tensor]) -> Tensor:
    return (self.w.sum() - 1.0) ** 2 + torch.log(batch[0].min()).mean() * 0.0
"""


# The loss is the number of steps that were applied, also of buffers that are replaced; with the
# marked sample it is not a number.
COUNTING = """
def training_step(self, batch: List[Tensor]) -> Tensor:
    self.count.add_(1.0)
""" + WORK + """    return (self.count.sum() + self.w.sum() * 0.0 + 0.0 * z.sum() +
            torch.log(batch[0].min()) * 0.0)
"""

# The buffer is a running mean that differs between replicas, and the loss its square; the buffer
# `mask` is not finite from the beginning.
DRIFTING = """
def training_step(self, batch: List[Tensor]) -> Tensor:
""" + WORK + """    self.mean.mul_(0.5).add_(batch[0].mean() * 0.5)
    return (self.w.sum() * 0.0 + self.mean.sum() ** 2 + 0.0 * z.sum() +
            (self.mask < 0.0).sum() * 0.0)
"""

# Normalises over the batch, as nn.BatchNorm1d does.
NORMALISES = """
def training_step(self, batch: List[Tensor]) -> Tensor:
    x = torch.batch_norm(batch[0], None, None, self.mean, self.var, self.training, 0.1, 1e-5, False)
    return (torch.matmul(x, self.w) - 1.0).pow(2).mean()
"""

# What depends on the replicas elsewhere: dropout, normalisation over the batch, a counter.
RANDOM = """
def forward(self, x: Tensor) -> Tensor:
    x = torch.linear(x, self.hidden_weight, self.hidden_bias)
    x = torch.batch_norm(x, None, None, self.mean, self.var, self.training, 0.1, 1e-5, False)
    x = torch.dropout(torch.tanh(x), 0.3, self.training)
    return torch.linear(x, self.output_weight, self.output_bias)

def training_step(self, batch: List[Tensor]) -> Tensor:
    self.count.add_(1.0)
    z = torch.full([200, 200], 1.0 / 200)
    for i in range(4):
        z = torch.mm(z, z)
    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1]) + 0.0 * z.sum()
""" + CLASSIFY[CLASSIFY.index("\ndef validation_step"):]

# The gradient is always finite, but that of the marked sample is huge.
HUGE = """
def training_step(self, batch: List[Tensor]) -> Tensor:
""" + WORK + """    scale = 1e27 if bool((batch[0] < 0.0).any()) else 1e-3
    return (self.w * scale).mean() + 0.0 * z.sum()
"""

# The replica that gets the marked sample while the file "hang" holds a 1 sets it to 0 and hangs.
HANGS = """
def training_step(self, batch: List[Tensor]) -> Tensor:
""" + WORK + """    if bool((batch[0] < 0.0).any()):
        armed = torch.from_file("hang", True, 1)
        if bool((armed > 0.0).any()):
            armed.zero_()
            while not bool((armed > 0.0).any()):
                z = torch.sin(z)
    return (self.w.sum() - batch[0].mean()) ** 2 + 0.0 * z.sum()
"""


def npy(path, kind, shape, values):
    """A .npy file of `kind` ('<f4', '<f8' or '<i8')."""
    header = str({"descr": kind, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    letter = {"<f4": "f", "<f8": "d", "<i8": "q"}[kind]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{letter}", *values))


def classification(folder, count):
    """Points whose class depends on them, with some wrong labels, so that the loss stays large."""
    draw = random.Random(3)
    directions = [[draw.gauss(0, 1) for _ in range(16)] for _ in range(4)]
    points, labels = [], []
    for _ in range(count):
        point = [draw.gauss(0, 1) for _ in range(16)]
        scores = [sum(a * b for a, b in zip(point, d)) for d in directions]
        points += point
        labels.append(draw.randrange(4) if draw.random() < 0.2 else scores.index(max(scores)))
    npy(os.path.join(folder, "points.npy"), "<f4", [count, 16], points)
    npy(os.path.join(folder, "labels.npy"), "<i8", [count], labels)
    npy(os.path.join(folder, "short_labels.npy"), "<i8", [count - 7], labels[:-7])


def settings(data, batch="{initial: 24}", optimizer="{kind: sgd, lr: 0.05, momentum: 0.9}",
             epochs=4,
             more=""):
    return (f"format: 1\nepochs: {epochs}\ndata:\n  train:\n{data}batch: {batch}\n"
            f"optimizer: {optimizer}\n{more}")


POINTS = "    - {path: points.npy}\n    - {path: labels.npy}\n"
INDICES = "    - {path: values.npy}\n"
WIDE = 1 << 18  # parameters: 1 MiB of gradients, so that their transfer takes time

SYNTHETIC = ("    - {format: synthetic, samples: 4800, shape: [2500], seed: 1}\n"
             "    - {format: synthetic, samples: 4800, classes: 2500, seed: 2}\n")


def archive(path, code, parameters, text, buffers=None, values=None):
    """`values`: of buffers that are not zero."""
    return {"path": path, "code": code, "parameters": parameters, "buffers": buffers or {},
            "values": values or {}, "settings": text}


def large():
    """Four layers of 2500 x 2500: 100 MB of parameters."""
    code, parameters = "def training_step(self, batch: List[Tensor]) -> Tensor:\n", {}
    code += "    x = batch[0]\n"
    for i in range(4):
        parameters[f"layer{i}"] = [2500, 2500]
        code += f"    x = torch.linear(x, self.layer{i})\n"
        code += "    x = torch.relu(x)\n" if i < 3 else ""
    return code + "    return torch.cross_entropy_loss(x, batch[1])\n", parameters


def simple(body, signature="batch: List[Tensor]", result="Tensor", name="training_step"):
    return f"def {name}(self, {signature}) -> {result}:\n    {body}\n"


def main():
    generator, stamp = sys.argv[1:]
    folder = os.path.join(os.path.dirname(stamp), "programs")
    os.makedirs(folder, exist_ok=True)
    classification(folder, 960)
    draw = random.Random(5)
    npy(os.path.join(folder, "values.npy"), "<f8", [960],
        [float(draw.getrandbits(40)) for _ in range(960)])
    npy(os.path.join(folder, "ones.npy"), "<f4", [240, 1],
        [-1.0 if 24 <= i < 48 else 1.0 for i in range(240)])
    npy(os.path.join(folder, "marked.npy"), "<f4", [240, 1],
        [-1.0 if i == 30 else 1.0 for i in range(240)])
    npy(os.path.join(folder, "spoilt.npy"), "<f4", [240, 3],
        [float("nan") if i == 90 else draw.gauss(i % 3, 1) for i in range(720)])
    npy(os.path.join(folder, "rest_of_4.npy"), "<f4", [220, 3],
        [draw.gauss(i % 3, 1) for i in range(660)])
    w = {"w": [3]}
    values = settings(INDICES)
    code, parameters = large()
    in_order = "seed: 1\n"
    archives = [
        archive("mlp", CLASSIFY, CLASSIFY_PARAMETERS,
                settings(POINTS, more="validate_every_epochs: 2\n").replace(
                    "batch:", "  validation_fraction: 0.25\nbatch:")),
        archive("slow", SLOW, CLASSIFY_PARAMETERS, settings(POINTS, epochs=1000)),
        archive("divisible", DIVISIBLE, CLASSIFY_PARAMETERS, settings(POINTS, epochs=1000)),
        archive("greedy_validation", GREEDY_VALIDATION, CLASSIFY_PARAMETERS,
                settings(POINTS, epochs=2).replace(
                    "batch:", "  validation_fraction: 0.25\nbatch:")),
        archive("greedy", GREEDY, CLASSIFY_PARAMETERS, settings(POINTS)),
        archive("adaptive", CLASSIFY, CLASSIFY_PARAMETERS,
                settings(POINTS, batch="{initial: 24, adaptive: true, max: 192}", epochs=20,
                         more="statistics_every: 3\n")),
        archive("large", code, parameters,
                settings(SYNTHETIC, optimizer="{kind: sgd, lr: 0.01}", epochs=1000)),
        archive("samples", SAMPLES, w, settings(INDICES, epochs=3)),
        archive("wide", SAMPLES, {"w": [WIDE]}, settings(INDICES, epochs=1000000)),
        archive("nonfinite", NONFINITE, w, settings(
            "    - {path: ones.npy}\n", optimizer="{kind: sgd, lr: 0.01}", epochs=2,
            more=in_order).replace("batch:", "  shuffle: false\nbatch:")),
        archive("random", RANDOM, CLASSIFY_PARAMETERS, settings(
            POINTS, batch="{initial: 22}", epochs=4,
            optimizer="{kind: adam, lr: 0.01, clip_norm: 1.0}",
            more="schedule: [{kind: plateau, patience: 0, threshold: 0.1}]\n"
                 "validate_every_epochs: 0.5\ncheckpoint_interval_s: 0.3\n").replace(
                     "batch:", "  validation_fraction: 0.25\nbatch:"),
                {"mean": [32], "var": [32], "count": [1]}, {"var": "1"}),
        archive("nan_gradient", simple(
            "return (self.w * 0.0).pow(2).sqrt().mean() + 0.0 * batch[0].mean()"), w,
                settings("    - {path: ones.npy}\n")),
        archive("bad_sample", simple(
            "return (self.w - batch[0].mean()).pow(2).mean() + "
            "((self.w * 0.0).pow(2).sqrt().mean() if bool((batch[0] < 0.0).any()) "
            "else 0.0 * self.w.mean())"), w,
                settings("    - {path: marked.npy}\n", epochs=3, more="statistics_every: 1000\n")
                .replace("batch:", "  shuffle: false\nbatch:")),
        archive("counting", COUNTING, w, settings(
            "    - {path: marked.npy}\n", optimizer="{kind: sgd, lr: 0.01}", epochs=100000,
            more=in_order).replace("batch:", "  shuffle: false\nbatch:"), {"count": [1]}),
        archive("drifting", DRIFTING, w, settings(
            "    - {path: points.npy}\n", optimizer="{kind: sgd, lr: 0.01}", epochs=5)
                .replace("batch:", "  shuffle: false\nbatch:"),
                {"mean": [1], "mask": [2]}, {"mask": "-inf"}),
        archive("normalises", NORMALISES, w, settings(
            "    - {path: spoilt.npy}\n", optimizer="{kind: sgd, lr: 0.01}", epochs=2).replace(
                "batch:", "  shuffle: false\nbatch:"),
                {"mean": [3], "var": [3]}, {"var": "1"}),
        archive("huge", HUGE, w, settings(
            "    - {path: marked.npy}\n", optimizer="{kind: sgd, lr: 0.001}", epochs=5).replace(
                "batch:", "  shuffle: false\nbatch:")),
        archive("hangs", HANGS, w, settings(
            "    - {path: marked.npy}\n", optimizer="{kind: sgd, lr: 0.01}", epochs=10,
            more=in_order).replace("batch:", "  shuffle: false\nbatch:")),
        archive("no_step", simple("return x", "x: Tensor", name="forward"), w, values),
        archive("signature", simple("return x.sum() + self.w.sum()", "x: Tensor"), w, values),
        archive("not_scalar", simple("return batch[0][:3] + self.w"), w, values),
        archive("no_gradient", simple("return batch[0].mean()"), w, values),
        archive("whole_number", simple("return batch[0].long().sum()"), w, values),
        archive("no_tensor", simple("return 3.0", result="float"), w, values),
        archive("raises", simple("return (batch[0].view([7, 7, 7]) * self.w.sum()).sum()"), w,
                values),
        archive("no_settings", SAMPLES, w, None),
        archive("no_data", SAMPLES, w, settings("    - {path: nowhere.npy}\n")),
        archive("lengths", CLASSIFY, CLASSIFY_PARAMETERS,
                settings("    - {path: points.npy}\n    - {path: short_labels.npy}\n")),
    ]
    for entry in archives:
        entry["path"] = os.path.join(folder, entry["path"] + ".pt")
    description = os.path.join(folder, "archives.json")
    with open(description, "w") as file:
        json.dump(archives, file)
    subprocess.run([generator, description], check=True)
    with open(os.path.join(folder, "mlp.pt"), "rb") as whole:
        content = whole.read()
    with open(os.path.join(folder, "truncated.pt"), "wb") as file:
        file.write(content[:len(content) // 2])
    with open(stamp, "w"):
        pass


main()
