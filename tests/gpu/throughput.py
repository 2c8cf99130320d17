#!/usr/bin/env python3
"""Milliseconds a step of one replica on a GPU, beside a plain PyTorch loop over the same
TorchScript program, data and optimizer: throughput.py ADAPTDL [--rounds 3]

Two transformers that continue text, in float32 with AdamW and clipping: `small`, of the size of
`adaptdl init chars` (what a step costs beside computing), and `large` (50 million parameters). By
hand, on a machine with an NVIDIA GPU, with the python3 whose torch is to be used. One line of JSON
for each; ratio: ours divided by the plain loop's, above 1 is slower.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy
import torch
from torch import Tensor, nn

# width, layers, heads, length of a window, windows a batch, steps
MODELS = {"small": (64, 2, 4, 64, 16, 1500), "large": (768, 7, 12, 256, 32, 240)}
SKIPPED = 0.3  # of the steps, at the beginning


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        count, length = x.size(0), x.size(1)
        parts = self.mix(self.norm(x)).view([count, length, 3, self.heads, -1])
        parts = parts.permute([2, 0, 3, 1, 4])
        seen = nn.functional.scaled_dot_product_attention(
            parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape([count, length, -1]))
        return x + self.shrink(nn.functional.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, width: int, layers: int, heads: int, length: int):
        super().__init__()
        self.word, self.place = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 256)

    @torch.jit.export
    def training_step(self, batch: list[Tensor]) -> Tensor:
        x = self.word(batch[0]) + self.place.weight[:batch[0].size(1)]
        scores = self.out(self.norm(self.blocks(x)))
        return nn.functional.cross_entropy(scores.flatten(0, 1), batch[1].flatten())


def make(folder, name):
    width, layers, heads, length, batch, steps = MODELS[name]
    torch.manual_seed(1)
    tokens = numpy.random.default_rng(1).integers(0, 256, batch * steps * length + 1, "uint8")
    numpy.save(os.path.join(folder, "text.npy"), tokens)
    entry = {"path": "text.npy", "dtype": "int64", "window": length, "window_stride": length}
    settings = {"format": 1, "name": name, "epochs": 1,
                "data": {"train": [entry, entry | {"window_shift": 1}]},
                "batch": {"initial": batch, "adaptive": False, "atomic_max": batch},
                "optimizer": {"kind": "adamw", "lr": 0.001, "weight_decay": 0.01, "clip_norm": 1.0}}
    program = os.path.join(folder, "train.pt")
    torch.jit.save(torch.jit.script(Gpt(width, layers, heads, length)), program,
                   _extra_files={"adaptdl.yaml": json.dumps(settings)})
    return program


def ours(adaptdl, program, name, number):
    folder = os.path.dirname(program)
    done = subprocess.run(
        [adaptdl, "run", program, "--name", f"{name}-{number}", "--device", "gpu",
         "--replicas", "1", "--checkpoint-dir", f"{folder}/check-{number}",
         "--output", f"{folder}/out-{number}", "-o", "json"],
        stdout=subprocess.PIPE, text=True, check=True)
    steps = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "step"]
    first = steps[int(len(steps) * SKIPPED)]
    return (steps[-1]["time_s"] - first["time_s"]) / (steps[-1]["step"] - first["step"]) * 1e3


def plain(program, name):
    _, _, _, length, batch, steps = MODELS[name]
    text = torch.from_numpy(numpy.load(os.path.join(os.path.dirname(program), "text.npy")))
    model = torch.jit.load(program).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.01)
    starts = torch.randperm(batch * steps) * length
    reach = torch.arange(length)
    for step in range(steps):
        if step == int(steps * SKIPPED):
            torch.cuda.synchronize()
            begun = time.monotonic()
        places = starts[step * batch:(step + 1) * batch, None] + reach
        pair = [text[places].long().pin_memory().cuda(non_blocking=True),
                text[places + 1].long().pin_memory().cuda(non_blocking=True)]
        loss = model.training_step(pair)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    torch.cuda.synchronize()
    return (time.monotonic() - begun) / (steps - int(steps * SKIPPED)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adaptdl")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            program = make(folder, name)
            pairs = [(ours(options.adaptdl, program, name, number), plain(program, name))
                     for number in range(options.rounds)]
        print(json.dumps({
            "model": name, "gpu": torch.cuda.get_device_name(),
            "ms": round(statistics.median(a for a, _ in pairs), 3),
            "plain_ms": round(statistics.median(b for _, b in pairs), 3),
            "ratio": round(statistics.median(a / b for a, b in pairs), 3)}), flush=True)


if __name__ == "__main__":
    main()
