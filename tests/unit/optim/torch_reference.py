#!/usr/bin/env python3
"""What Python's torch.optim and torch.optim.lr_scheduler compute, for our tests to compare with.
Of LAMB and Lion, which torch does not have, there are small ones here, after their papers.

    torch_reference.py FILE           writes it
    torch_reference.py --check FILE   compares FILE with what this torch computes

The Python that has torch is named by ADAPTDL_TEST_PYTHON; without one nothing is done (77:
skipped).
"""
import json
import os
import sys

try:
    import torch
except ImportError:
    python = os.environ.get("ADAPTDL_TEST_PYTHON")
    if not python or python == sys.executable:
        print("skipped: ADAPTDL_TEST_PYTHON names no Python with torch")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

STEPS = 50
# `sometimes` has no gradient in every third step, `never` in none.
SHAPES = {"layer.weight": [2, 3], "layer.bias": [4], "sometimes": [3], "never": [2]}
MOMENTA = [0.95 - 0.01 * (step % 9) for step in range(STEPS)]  # of those that are cycled
FACTORS = [0.1 + 0.05 * (step % 7) for step in range(STEPS)]  # of the learning rate, each step


class Lamb(torch.optim.Optimizer):
    """arXiv 1904.00962 v5, algorithm 2, with phi(z) = z."""

    def __init__(self, groups, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * p.grad
                state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * p.grad ** 2
                m, v = state["m"] / (1 - beta1 ** t), state["v"] / (1 - beta2 ** t)
                move = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                ratio = p.norm() / move.norm() if p.norm() > 0 and move.norm() > 0 else 1
                p -= group["lr"] * ratio * move


class Lion(torch.optim.Optimizer):
    """arXiv 2302.06675, algorithm 2."""

    def __init__(self, groups, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].get("m", torch.zeros_like(p))
                move = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p -= group["lr"] * (move + group["weight_decay"] * p)
                self.state[p]["m"] = beta2 * m + (1 - beta2) * p.grad


# (optimizer of adaptdl.yaml, torch's class, its arguments)
BIAS = {"match": "*.bias", "lr": 0.02, "weight_decay": 0.0}
OPTIMIZERS = [
    ({"kind": "sgd", "lr": 0.1}, "SGD", {"lr": 0.1}),
    ({"kind": "sgd", "lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.03}, "SGD",
     {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.03}),
    ({"kind": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.03,
      "groups": [BIAS]}, "SGD",
     {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.03}),
    ({"kind": "adam", "lr": 0.1}, "Adam", {"lr": 0.1}),
    ({"kind": "adam", "lr": 0.1, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.03,
      "amsgrad": True, "groups": [BIAS]}, "Adam",
     {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.03, "amsgrad": True}),
    ({"kind": "adamw", "lr": 0.1, "weight_decay": 0.03, "groups": [BIAS]}, "AdamW",
     {"lr": 0.1, "weight_decay": 0.03}),
    ({"kind": "adamw", "lr": 0.1}, "AdamW", {"lr": 0.1, "weight_decay": 0.0}),
    ({"kind": "adamw", "lr": 0.1, "weight_decay": 0.03, "amsgrad": True}, "AdamW",
     {"lr": 0.1, "weight_decay": 0.03, "amsgrad": True}),
    ({"kind": "rmsprop", "lr": 0.1}, "RMSprop", {"lr": 0.1}),
    ({"kind": "rmsprop", "lr": 0.1, "alpha": 0.9, "momentum": 0.7, "centered": True,
      "weight_decay": 0.03, "groups": [BIAS]}, "RMSprop",
     {"lr": 0.1, "alpha": 0.9, "momentum": 0.7, "centered": True, "weight_decay": 0.03}),
    ({"kind": "adagrad", "lr": 0.1}, "Adagrad", {"lr": 0.1}),
    ({"kind": "adagrad", "lr": 0.1, "lr_decay": 0.05, "initial_accumulator": 0.2,
      "weight_decay": 0.03, "groups": [BIAS]}, "Adagrad",
     {"lr": 0.1, "lr_decay": 0.05, "initial_accumulator_value": 0.2, "weight_decay": 0.03}),
    ({"kind": "nadam", "lr": 0.1}, "NAdam", {"lr": 0.1}),
    ({"kind": "nadam", "lr": 0.1, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "momentum_decay": 0.02,
      "weight_decay": 0.03, "groups": [BIAS]}, "NAdam",
     {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "momentum_decay": 0.02, "weight_decay": 0.03}),
    ({"kind": "nadam", "lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.03}, "NAdam",
     {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.03}),
    ({"kind": "adadelta"}, "Adadelta", {}),
    ({"kind": "adadelta", "lr": 3.0, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.03,
      "groups": [BIAS], "clip_norm": 0.7}, "Adadelta",
     {"lr": 3.0, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.03}),
    ({"kind": "lamb", "lr": 0.1}, "Lamb", {"lr": 0.1}),
    ({"kind": "lamb", "lr": 0.1, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.03,
      "groups": [BIAS], "clip_value": 0.5}, "Lamb",
     {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.03}),
    ({"kind": "lion", "lr": 0.1}, "Lion", {"lr": 0.1}),
    ({"kind": "lion", "lr": 0.1, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.03,
      "groups": [BIAS], "clip_norm": 0.5}, "Lion",
     {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.03}),
    ({"kind": "sgd", "lr": 0.1, "momentum": 0.9, "clip_norm": 0.7}, "SGD",
     {"lr": 0.1, "momentum": 0.9}),
    ({"kind": "adam", "lr": 0.1, "clip_value": 0.3, "clip_norm": 0.5}, "Adam", {"lr": 0.1}),
]
CYCLED = [
    ({"kind": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True}, "SGD",
     {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ({"kind": "adam", "lr": 0.1}, "Adam", {"lr": 0.1}),
    ({"kind": "adamw", "lr": 0.1}, "AdamW", {"lr": 0.1, "weight_decay": 0.0}),
    ({"kind": "rmsprop", "lr": 0.1, "momentum": 0.5}, "RMSprop", {"lr": 0.1, "momentum": 0.5}),
    ({"kind": "lamb", "lr": 0.1}, "Lamb", {"lr": 0.1}),
    ({"kind": "lion", "lr": 0.1}, "Lion", {"lr": 0.1}),
]


def train(settings, name, arguments, momenta=None):
    parameters = {key: torch.linspace(-1, 1, torch.Size(shape).numel(), dtype=torch.float64)
                  .reshape(shape).requires_grad_() for key, shape in SHAPES.items()}
    groups = [{"params": [p for key, p in parameters.items()
                          if not (settings.get("groups") and key.endswith(".bias"))]}]
    if settings.get("groups"):
        groups.append({"params": [parameters["layer.bias"]], "lr": BIAS["lr"],
                       "weight_decay": BIAS["weight_decay"]})
    optimizer = {"Lamb": Lamb, "Lion": Lion}.get(name) or getattr(torch.optim, name)
    optimizer = optimizer(groups, **arguments)
    rates = [group["lr"] for group in optimizer.param_groups]
    for step in range(STEPS):
        # As in the test.
        optimizer.zero_grad()
        for i, key in enumerate(SHAPES):
            if key == "never" or (key == "sometimes" and step % 3 == 1):
                continue
            p = parameters[key]
            numbers = torch.arange(p.numel(), dtype=torch.float64) * (i + 1) + step
            p.grad = torch.sin(numbers).reshape(p.shape) + 0.3 * p.detach()
        everything = list(parameters.values())
        if settings.get("clip_value"):
            torch.nn.utils.clip_grad_value_(everything, settings["clip_value"])
        if settings.get("clip_norm"):
            torch.nn.utils.clip_grad_norm_(everything, settings["clip_norm"])
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * FACTORS[step]
            if momenta and "betas" in group:
                group["betas"] = (momenta[step], group["betas"][1])
            elif momenta:
                group["momentum"] = momenta[step]
        optimizer.step()
    return {key: p.detach().flatten().tolist() for key, p in parameters.items()}


PER_EPOCH = 10  # iterations
METRICS = [1.0, 0.9, 0.9, 0.89995, 0.91, 0.8, 0.85, 0.86, 0.87, 0.88, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7]


# (schedule of adaptdl.yaml, the same in torch, stepped once an iteration)
def schedules(optimizer):
    lr = torch.optim.lr_scheduler
    warm_up = {"kind": "warmup", "epochs": 2, "start_factor": 0.1}
    return [
        ([{"kind": "step", "every_epochs": 2, "gamma": 0.3}],
         lambda: lr.StepLR(optimizer, 2 * PER_EPOCH, 0.3)),
        ([{"kind": "multi_step", "milestones": [1.5, 3, 4.2], "gamma": 0.2}],
         lambda: lr.MultiStepLR(optimizer, [15, 30, 42], 0.2)),
        ([{"kind": "exponential", "every_epochs": 1, "gamma": 0.5}],
         lambda: lr.ExponentialLR(optimizer, 0.5 ** (1 / PER_EPOCH))),
        ([{"kind": "cosine", "epochs": 6, "final_factor": 0.05}],
         lambda: lr.CosineAnnealingLR(optimizer, 6 * PER_EPOCH, 0.05)),
        ([{"kind": "linear", "epochs": 3}],
         lambda: lr.LinearLR(optimizer, total_iters=3 * PER_EPOCH)),
        ([{"kind": "linear", "epochs": 5, "start_factor": 1, "final_factor": 0.05}],
         lambda: lr.LinearLR(optimizer, 1.0, 0.05, 5 * PER_EPOCH)),
        ([{"kind": "polynomial", "epochs": 5}],
         lambda: lr.PolynomialLR(optimizer, 5 * PER_EPOCH)),
        ([{"kind": "polynomial", "power": 2.5}],
         lambda: lr.PolynomialLR(optimizer, 6 * PER_EPOCH, 2.5)),
        ([{"kind": "cosine_restarts", "every_epochs": 1.7, "final_factor": 0.1}],
         lambda: lr.CosineAnnealingWarmRestarts(optimizer, 17, 1, 0.1)),
        ([{"kind": "cosine_restarts", "every_epochs": 0.7, "multiplier": 2}],
         lambda: lr.CosineAnnealingWarmRestarts(optimizer, 7, 2)),
        ([{"kind": "cosine_restarts", "multiplier": 3}],
         lambda: lr.CosineAnnealingWarmRestarts(optimizer, PER_EPOCH, 3)),
        ([{"kind": "one_cycle"}],
         lambda: lr.OneCycleLR(optimizer, 1.0, 6 * PER_EPOCH)),
        ([{"kind": "one_cycle", "cycle_momentum": False}],
         lambda: lr.OneCycleLR(optimizer, 1.0, 6 * PER_EPOCH, cycle_momentum=False)),
        ([{"kind": "one_cycle", "pct_start": 0.21, "anneal_strategy": "linear", "div_factor": 10,
           "final_div_factor": 50, "base_momentum": 0.7, "max_momentum": 0.9}],
         lambda: lr.OneCycleLR(optimizer, 1.0, 6 * PER_EPOCH,
                               pct_start=0.21, anneal_strategy="linear", div_factor=10,
                               final_div_factor=50, base_momentum=0.7, max_momentum=0.9)),
        ([{"kind": "one_cycle", "three_phase": True}],
         lambda: lr.OneCycleLR(optimizer, 1.0, 6 * PER_EPOCH,
                               three_phase=True)),
        ([warm_up, {"kind": "constant"}],
         lambda: lr.LinearLR(optimizer, 0.1, 1.0, 2 * PER_EPOCH)),
        ([warm_up, {"kind": "cosine", "epochs": 4, "final_factor": 0.05}],
         lambda: lr.SequentialLR(optimizer, [
             lr.LinearLR(optimizer, 0.1, 1.0, 2 * PER_EPOCH),
             lr.CosineAnnealingLR(optimizer, 4 * PER_EPOCH, 0.05)], [2 * PER_EPOCH])),
        ([warm_up, {"kind": "constant", "epochs": 1, "factor": 0.5},
          {"kind": "step", "every_epochs": 1, "gamma": 0.3}],
         lambda: lr.SequentialLR(optimizer, [
             lr.LinearLR(optimizer, 0.1, 1.0, 2 * PER_EPOCH),
             lr.ConstantLR(optimizer, 0.5, 1000), lr.StepLR(optimizer, PER_EPOCH, 0.3)],
             [2 * PER_EPOCH, 3 * PER_EPOCH])),
    ]


def plateaus(optimizer):
    lr = torch.optim.lr_scheduler
    return [
        ([{"kind": "plateau", "gamma": 0.5, "patience": 1, "threshold": 1e-3}],
         lambda: lr.ReduceLROnPlateau(optimizer, "min", 0.5, 1, 1e-3)),
        ([{"kind": "plateau", "gamma": 0.1, "patience": 0, "min_factor": 0.05}],
         lambda: lr.ReduceLROnPlateau(optimizer, "min", 0.1, 0, 1e-4, min_lr=0.05)),
        ([{"kind": "plateau", "gamma": 0.5, "patience": 2, "maximize": True}],
         lambda: lr.ReduceLROnPlateau(optimizer, "max", 0.5, 2, 1e-4)),
        ([{"kind": "plateau", "gamma": 0.5, "patience": 0, "cooldown": 2}],
         lambda: lr.ReduceLROnPlateau(optimizer, "min", 0.5, 0, 1e-4, cooldown=2)),
        ([{"kind": "plateau", "gamma": 0.5, "patience": 1, "threshold": 0.15,
           "threshold_mode": "abs"}],
         lambda: lr.ReduceLROnPlateau(optimizer, "min", 0.5, 1, 0.15, "abs")),
        ([{"kind": "plateau", "gamma": 0.5, "patience": 1, "threshold": 0.005, "cooldown": 1,
           "threshold_mode": "abs", "maximize": True}],
         lambda: lr.ReduceLROnPlateau(optimizer, "max", 0.5, 1, 0.005, "abs", 1)),
    ]


def factors():
    results = []
    for kinds in (schedules, plateaus):
        for i in range(len(kinds(None))):
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.5)
            schedule, make = kinds(optimizer)[i]
            scheduler = make()
            expected, momenta = [], []
            if kinds is schedules:
                for _ in range(6 * PER_EPOCH):
                    expected.append(optimizer.param_groups[0]["lr"])
                    momenta.append(optimizer.param_groups[0]["momentum"])
                    optimizer.step()
                    scheduler.step()
                results.append({"schedule": schedule, "factors": expected})
                if any(momentum != 0.5 for momentum in momenta):
                    results[-1]["momenta"] = momenta
            else:
                for metric in METRICS:
                    scheduler.step(metric)
                    expected.append(optimizer.param_groups[0]["lr"])
                results.append({"schedule": schedule, "metrics": METRICS, "factors": expected})
    return results


def make():
    torch.set_default_dtype(torch.float64)  # of the scalars that optimizers keep, too
    return {"torch": torch.__version__.split("+")[0], "steps": STEPS, "shapes": SHAPES,
            "lr_factors": FACTORS,
            "optimizers": [{"optimizer": one[0], "parameters": train(*one)} for one in OPTIMIZERS] +
                          [{"optimizer": one[0], "momenta": MOMENTA,
                            "parameters": train(*one, MOMENTA)} for one in CYCLED],
            "iterations_per_epoch": PER_EPOCH, "schedules": factors()}


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-9 * max(1.0, abs(a))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(key == "torch" or same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def main():
    if sys.argv[1] == "--check":
        with open(sys.argv[2]) as file:
            held = json.load(file)
        if not same(held, json.loads(json.dumps(make()))):
            print(f"{sys.argv[2]} is not what torch {torch.__version__} computes; write it again "
                  "with this script, and see what changed")
            sys.exit(1)
        return
    with open(sys.argv[1], "w") as file:
        json.dump(make(), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
