#!/usr/bin/env python3
"""What Python's torch.optim and torch.optim.lr_scheduler compute, for our tests to compare with.

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

STEPS = 25
SHAPES = {"layer.weight": [2, 3], "layer.bias": [4], "never": [2]}
FACTORS = [0.1 + 0.05 * (step % 7) for step in range(STEPS)]  # of the learning rate, each step

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
    ({"kind": "sgd", "lr": 0.1, "momentum": 0.9, "clip_norm": 0.7}, "SGD",
     {"lr": 0.1, "momentum": 0.9}),
    ({"kind": "adam", "lr": 0.1, "clip_value": 0.3, "clip_norm": 0.5}, "Adam", {"lr": 0.1}),
]


def train(settings, name, arguments):
    parameters = {key: torch.linspace(-1, 1, torch.Size(shape).numel(), dtype=torch.float64)
                  .reshape(shape).requires_grad_() for key, shape in SHAPES.items()}
    groups = [{"params": [p for key, p in parameters.items()
                          if not (settings.get("groups") and key.endswith(".bias"))]}]
    if settings.get("groups"):
        groups.append({"params": [parameters["layer.bias"]], "lr": BIAS["lr"],
                       "weight_decay": BIAS["weight_decay"]})
    optimizer = getattr(torch.optim, name)(groups, **arguments)
    rates = [group["lr"] for group in optimizer.param_groups]
    for step in range(STEPS):
        # As in the test: the last parameter never has a gradient.
        for i, key in enumerate(list(SHAPES)[:-1]):
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
    ]


def factors():
    results = []
    for kinds in (schedules, plateaus):
        for i in range(len(kinds(None))):
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
            schedule, make = kinds(optimizer)[i]
            scheduler = make()
            expected = []
            if kinds is schedules:
                for _ in range(6 * PER_EPOCH):
                    expected.append(optimizer.param_groups[0]["lr"])
                    optimizer.step()
                    scheduler.step()
                results.append({"schedule": schedule, "factors": expected})
            else:
                for metric in METRICS:
                    scheduler.step(metric)
                    expected.append(optimizer.param_groups[0]["lr"])
                results.append({"schedule": schedule, "metrics": METRICS, "factors": expected})
    return results


def make():
    return {"torch": torch.__version__.split("+")[0], "steps": STEPS, "shapes": SHAPES,
            "lr_factors": FACTORS,
            "optimizers": [{"optimizer": settings, "parameters": train(settings, name, arguments)}
                           for settings, name, arguments in OPTIMIZERS],
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


main()
