"""The true noise scale of gradients along a training run; needs a Python with torch and numpy.

    noise_truth.py FOLDER digits|chars sgd|adamw EPOCHS SEED [EVERY]

Trains the example in FOLDER (of `adaptdl init`) at its initial batch, in one process, and in every
EVERYth step takes the gradients of all samples in batches of the initial size, divided by what the
optimizer divides by. Their covariance and mean tell the noise scale tr(covariance) / |mean|^2, in
samples. Prints a line "EPOCH TRACE SQUARE" for each, the two as in gns/statistics.h.
"""

import math
import os
import sys

import numpy
import torch
from torch.nn.utils import clip_grad_norm_

SGD = {"momentum": 0.9, "weight_decay": 0.0005}
RATES = {("digits", "sgd"): 0.02, ("digits", "adamw"): 0.002, ("chars", "adamw"): 0.002,
         ("chars", "sgd"): 0.1}


def digits(folder):
    images, labels = (numpy.load(os.path.join(folder, name)) for name in
                      ("images.npy", "labels.npy"))
    return [torch.from_numpy(images).float() * 0.125 - 1, torch.from_numpy(labels)]


def chars(folder):
    text = torch.from_numpy(numpy.load(os.path.join(folder, "text.npy"))).long()
    windows = (len(text) - 1) // 64
    return [text[shift:shift + 64 * windows].view(windows, 64) for shift in (0, 1)]


# (samples, initial batch, fraction for validation, clip norm, factor of the rate at progress p)
EXAMPLES = {
    "digits": (digits, 32, 0.2, None,
               lambda p, epochs: 0.02 + 0.98 * (1 + math.cos(math.pi * p / epochs)) / 2),
    "chars": (chars, 16, 0.1, 1.0,
              lambda p, epochs: 0.1 + 0.9 * p / 0.5 if p < 0.5 else
              0.05 + 0.95 * (1 + math.cos(math.pi * (p - 0.5) / max(epochs - 0.5, 1e-9))) / 2),
}


class Training:
    def __init__(self, folder, name, kind, epochs):
        load, self.batch, validation, self.clip, self.factor = EXAMPLES[name]
        self.data, self.epochs, self.rate = load(folder), epochs, RATES[name, kind]
        kept = torch.randperm(len(self.data[0]))[:round(len(self.data[0]) * (1 - validation))]
        self.data = [tensor[kept] for tensor in self.data]
        self.program = torch.jit.load(os.path.join(folder, "train.pt"))
        self.parameters = list(self.program.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, self.rate, **SGD) if kind == "sgd" else \
            torch.optim.AdamW(self.parameters, self.rate, weight_decay=0.01)

    def backward(self, chosen):
        self.optimizer.zero_grad()
        self.program.training_step([tensor[chosen] for tensor in self.data]).backward()

    def divisor(self, parameter):
        """What AdamW divides the gradient by; 1 for SGD and before the first step."""
        state = self.optimizer.state.get(parameter, {})
        if "exp_avg_sq" not in state:
            return torch.ones(())
        unbiased = state["exp_avg_sq"] / (1 - 0.999 ** float(state["step"]))
        return unbiased.sqrt() + 1e-8

    def gradient(self, chosen, divisors):
        self.backward(chosen)
        return torch.cat([(p.grad / d).reshape(-1) for p, d in
                          zip(self.parameters, divisors)]).double()

    def truth(self):
        divisors = [self.divisor(parameter) for parameter in self.parameters]
        whole = len(self.data[0]) // self.batch
        parts = torch.randperm(len(self.data[0]))[:whole * self.batch].split(self.batch)
        total, squares = 0, 0.0
        for part in parts:
            one = self.gradient(part, divisors)
            total, squares = total + one, squares + float(one @ one)
        mean = total / whole
        square = float(mean @ mean)
        return (squares / whole - square) * whole / (whole - 1) * self.batch, square

    def run(self, every):
        steps = math.ceil(len(self.data[0]) / self.batch)
        order = []
        for step in range(steps * self.epochs):
            if step % every == 0:
                print(step / steps, *self.truth(), flush=True)
            order = order or list(torch.randperm(len(self.data[0])).split(self.batch))
            self.backward(order.pop())
            if self.clip:
                clip_grad_norm_(self.parameters, self.clip)
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate * self.factor(step / steps, self.epochs)
            self.optimizer.step()


def main():
    folder, name, kind, epochs, seed, *every = sys.argv[1:]
    torch.manual_seed(int(seed))
    torch.set_num_threads(1)
    Training(folder, name, kind, int(epochs)).run(int(every[0]) if every else 5)


if __name__ == "__main__":
    main()
