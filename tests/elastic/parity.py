"""Losses are PyTorch's, step by step, and so are trained parameters, for any number of replicas: of
each optimizer and schedule, with groups, clipping, accumulation, frozen parameters, parameters
that some steps do not use, sparse gradients, and steps that are skipped.
Needs a Python with torch and numpy in ADAPTDL_TEST_PYTHON; skipped (77) without."""

import array
import json
import os

from support import (check, main, read, read_json, read_safetensors, run_command, same_losses,
                     skip_all)

PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")
BATCH, STEPS_PER_EPOCH, EPOCHS = 48, 5, 10

# Of 230 samples the last step of an epoch has 38, which three replicas share as 13, 13 and 12. The
# samples come in order, as PyTorch cannot draw ours. `sometimes` has no gradient in the second and
# the fifth step of an epoch, `never` in none; weight decay and averages must leave them alone then.
# The samples `spoilt` are not numbers.
REFERENCE = '''
import json
import sys
from typing import Dict, List
import numpy
import torch
from torch import Tensor, nn

cases, folder_of_reference, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder_of_reference)
from torch_reference import Lamb, Lion

BATCH = 48

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
        self.sometimes = nn.Parameter(torch.linspace(-1, 1, 4))
        self.never = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.linspace(0.5, 1.5, 16), requires_grad=False)

    def forward(self, x: Tensor, flags: Tensor) -> Tensor:
        y = self.layers(x * self.frozen)
        return y + self.sometimes if int(flags[0]) != 1 else y

    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        return nn.functional.cross_entropy(self.forward(batch[0], batch[2]), batch[1])

    @torch.jit.export
    def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1], reduction="sum")
        return {"loss": loss, "count": torch.tensor(len(batch[1]))}

class Words(nn.Module):
    """Looks up rows of a table, some of them several times in a batch, and many not at all."""
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(200, 8, sparse=True)
        self.out = nn.Linear(8, 4)

    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        words = (batch[0][:, :5] * 10).long() % 200
        return nn.functional.cross_entropy(self.out(self.table(words).mean(1)), batch[1])

def set_rates(optimizer, schedule, progress):
    """As after `progress` steps, which need not be a whole number: by PyTorch's closed formula."""
    schedule.last_epoch = progress
    formula = getattr(schedule, "_get_closed_form_lr", schedule.get_lr)
    if isinstance(schedule, torch.optim.lr_scheduler.CosineAnnealingWarmRestarts):
        schedule.step(progress)
        formula = schedule.get_lr
    for group, rate in zip(optimizer.param_groups, formula()):
        group["lr"] = rate

torch.set_num_threads(1)
numbers = numpy.random.default_rng(1)
programs = {}
for case in json.load(open(cases)):
    torch.set_default_dtype(getattr(torch, case["dtype"]))
    kind = case["dtype"], case.get("net", "Net")
    if kind not in programs:
        torch.manual_seed(1)
        net = eval(kind[1])()
        initial = {name: value.clone() for name, value in net.state_dict().items()}
        programs[kind] = net, torch.jit.script(net), initial
    net, program, initial = programs[kind]
    net.load_state_dict(initial)
    points = numbers.normal(size=(case["samples"], 16)).astype(case["dtype"])
    labels = points[:, :4].argmax(1)
    points[case["spoilt"]] = numpy.nan
    flags = numpy.arange(case["samples"]) // BATCH % 3
    files = [f"{case['name']}-{kind}.npy" for kind in ("points", "labels", "flags")]
    for file, values in zip(files, (points, labels, flags)):
        numpy.save(file, values)
    sources = ", ".join(f"{{path: {file}}}" for file in files)
    validation = f"validation: [{sources}]" if case.get("plateau") else ""
    text = f"""format: 1
epochs: {epochs}
data:
  train: [{sources}]
  shuffle: false
  {validation}
batch: {{initial: {BATCH}}}
optimizer: {case["optimizer"]}
schedule: {case["schedule"]}
"""
    torch.jit.save(program, case["program"], _extra_files={"adaptdl.yaml": text})
    trained = [p for p in net.parameters() if p.requires_grad]
    biases = [p for name, p in net.named_parameters() if name.endswith(".bias")]
    others = [p for p in trained if not any(p is bias for bias in biases)]
    optimizer = eval(case["torch"])
    schedule = eval(case["torch_schedule"]) if case["torch_schedule"] else None
    losses, progress = [], 0
    data = [torch.from_numpy(values) for values in (points, labels, flags)]
    for _ in range(epochs):
        for batch in zip(*(values.split(BATCH) for values in data)):
            if case.get("partial"):
                set_rates(optimizer, schedule, progress)
            optimizer.zero_grad()
            loss = net.training_step(batch)
            loss.backward()
            finite = loss.isfinite()
            if case.get("clip"):
                nn.utils.clip_grad_norm_(trained, case["clip"])
            if finite:
                optimizer.step()
            losses.append(loss.item() if finite else None)
            # Ours follows the progress: that of a step with a fixed batch is its samples', skipped
            # or not.
            progress += len(batch[0]) / BATCH
            if schedule and not case.get("plateau") and not case.get("partial"):
                schedule.step()
        if case.get("plateau"):
            with torch.no_grad():
                sums = net.validation_step(data)
            schedule.step((sums["loss"] / sums["count"]).item())
    json.dump(losses, open(case["name"] + "-losses.json", "w"))
    trained = {name: value.flatten().tolist() for name, value in net.state_dict().items()}
    json.dump(trained, open(case["name"] + "-trained.json", "w"))
'''

# (optimizer of adaptdl.yaml, the same in torch); `biases` are trained with other numbers.
BIASES = 'groups: [{match: "*.bias", lr: 0.02, weight_decay: 0}]'
GROUPS = '[{"params": others}, {"params": biases, "lr": 0.02, "weight_decay": 0.0}]'
OPTIMIZERS = [
    ("{kind: sgd, lr: 0.1, weight_decay: 0.01}",
     "torch.optim.SGD(trained, lr=0.1, weight_decay=0.01)"),
    ("{kind: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.01, " + BIASES + "}",
     f"torch.optim.SGD({GROUPS}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)"),
    ("{kind: adam, lr: 0.01, amsgrad: true, weight_decay: 0.01, clip_norm: 0.3}",
     "torch.optim.Adam(trained, lr=0.01, amsgrad=True, weight_decay=0.01)"),
    ("{kind: adamw, lr: 0.01, weight_decay: 0.1, " + BIASES + "}",
     f"torch.optim.AdamW({GROUPS}, lr=0.01, weight_decay=0.1)"),
    ("{kind: nadam, lr: 0.01, weight_decay: 0.01}",
     "torch.optim.NAdam(trained, lr=0.01, weight_decay=0.01)"),
    ("{kind: rmsprop, lr: 0.01, momentum: 0.5, centered: true, weight_decay: 0.01}",
     "torch.optim.RMSprop(trained, lr=0.01, momentum=0.5, centered=True, weight_decay=0.01)"),
    ("{kind: adagrad, lr: 0.05, lr_decay: 0.01, weight_decay: 0.01}",
     "torch.optim.Adagrad(trained, lr=0.05, lr_decay=0.01, weight_decay=0.01)"),
    ("{kind: adadelta, weight_decay: 0.01, clip_norm: 0.3}",
     "torch.optim.Adadelta(trained, weight_decay=0.01)"),
    ("{kind: lamb, lr: 0.01, weight_decay: 0.1, " + BIASES + "}",
     f"Lamb({GROUPS}, lr=0.01, weight_decay=0.1)"),
    ("{kind: lion, lr: 0.003, weight_decay: 0.1, " + BIASES + "}",
     f"Lion({GROUPS}, lr=0.003, weight_decay=0.1)"),
]

# (schedule of adaptdl.yaml, in epochs of 5 steps; the same in torch, in steps)
LR = "torch.optim.lr_scheduler."
SCHEDULES = [
    ("[{kind: step, every_epochs: 3, gamma: 0.5}]", LR + "StepLR(optimizer, 15, 0.5)"),
    ("[{kind: multi_step, milestones: [2, 5.6], gamma: 0.3}]",
     LR + "MultiStepLR(optimizer, [10, 28], 0.3)"),
    ("[{kind: exponential, every_epochs: 5, gamma: 0.3}]",
     LR + "ExponentialLR(optimizer, 0.3 ** (1 / 25))"),
    ("[{kind: linear, epochs: 8}]", LR + "LinearLR(optimizer, total_iters=40)"),
    ("[{kind: polynomial, power: 2}]", LR + "PolynomialLR(optimizer, 50, 2)"),
    ("[{kind: warmup, epochs: 2, start_factor: 0.1}, {kind: cosine, final_factor: 0.1}]",
     LR + "SequentialLR(optimizer, [" + LR + "LinearLR(optimizer, 0.1, 1.0, 10), " + LR +
     "CosineAnnealingLR(optimizer, 40, 0.03)], [10])"),
    ("[{kind: cosine_restarts, every_epochs: 1.4, multiplier: 2}]",
     LR + "CosineAnnealingWarmRestarts(optimizer, 7, 2)"),
    ("[{kind: one_cycle, three_phase: true, pct_start: 0.4}]",
     LR + "OneCycleLR(optimizer, 0.3, 50, pct_start=0.4, three_phase=True)"),
    ("[{kind: plateau, patience: 0, threshold: 0.3, gamma: 0.5, cooldown: 1}]",
     LR + "ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.3, cooldown=1)"),
]

# In epochs of 230 / 48 steps, and such that none begins or ends exactly with a step.
PARTIAL = [
    ("[{kind: step, every_epochs: 2.9, gamma: 0.5}]",
     LR + "StepLR(optimizer, 2.9 * 230 / 48, 0.5)"),
    ("[{kind: multi_step, milestones: [2.1, 5.6], gamma: 0.3}]",
     LR + "MultiStepLR(optimizer, [2.1 * 230 / 48, 5.6 * 230 / 48], 0.3)"),
    ("[{kind: exponential, every_epochs: 5, gamma: 0.3}]",
     LR + "ExponentialLR(optimizer, 0.3 ** (48 / 230 / 5))"),
    ("[{kind: linear, epochs: 7.9}]", LR + "LinearLR(optimizer, total_iters=7.9 * 230 / 48)"),
    ("[{kind: polynomial, power: 2}]", LR + "PolynomialLR(optimizer, 10 * 230 / 48, 2)"),
    ("[{kind: cosine, final_factor: 0.1}]",
     LR + "CosineAnnealingLR(optimizer, 10 * 230 / 48, 0.03)"),
    (f"[{{kind: cosine_restarts, every_epochs: {6 * 48 / 230!r}, multiplier: 2}}]",
     LR + "CosineAnnealingWarmRestarts(optimizer, 6, 2)"),
]

SPARSE = [
    ("{kind: sgd, lr: 2}", "torch.optim.SGD(trained, lr=2)"),
    ("{kind: sgd, lr: 0.5, momentum: 0.9}", "torch.optim.SGD(trained, lr=0.5, momentum=0.9)"),
    ("{kind: adagrad, lr: 0.3, lr_decay: 0.01}",
     "torch.optim.Adagrad(trained, lr=0.3, lr_decay=0.01)"),
]

REPLICAS = [
    ["--replicas", "3"],
    ["--replicas", "2"],
    ["--replicas", "3", "--set", "batch.accumulation=true", "--set", "batch.atomic_max=8"],
    ["--replicas", "1"],
    ["--replicas", "1", "--set", "batch.accumulation=true", "--set", "batch.atomic_max=16"],
]


def optimizer_cases(dtype, chosen, tolerance, replicas):
    for i, (settings, in_torch) in enumerate(chosen):
        yield {"name": f"{dtype}-optimizer-{i}", "dtype": dtype, "samples": 230,
               "optimizer": settings, "torch": in_torch, "schedule": "[]", "torch_schedule": "",
               "tolerance": tolerance, "clip": 0.3 if "clip_norm" in settings else None,
               "replicas": replicas(i), "spoilt": []}


def schedule_cases():
    for i, (settings, in_torch) in enumerate(SCHEDULES):
        yield {"name": f"schedule-{i}", "dtype": "float64", "samples": BATCH * STEPS_PER_EPOCH,
               "optimizer": "{kind: sgd, lr: 0.3, momentum: 0.5}",
               "torch": "torch.optim.SGD(trained, lr=0.3, momentum=0.5)", "schedule": settings,
               "torch_schedule": in_torch, "tolerance": 1e-10, "plateau": "Plateau" in in_torch,
               "replicas": [REPLICAS[i % 5]], "spoilt": []}


def spoilt_schedule_cases():
    """Some samples of the second and of the last step of an epoch. Those steps are skipped, but not
    by the schedule, which ends with the data."""
    for i, case in enumerate(schedule_cases()):
        if not case["plateau"]:  # its validations would not be numbers
            yield case | {"name": f"spoilt-schedule-{i}", "spoilt": [BATCH + 5, 229],
                          "replicas": [REPLICAS[(i + 2) % 5]]}


def partial_schedule_cases():
    """Shorter steps at the end of an epoch, which are less progress: as much as they have
    samples."""
    for i, (case, (settings, in_torch)) in enumerate(zip(schedule_cases(), PARTIAL)):
        yield case | {"name": f"partial-{i}", "samples": 230, "partial": True,
                      "schedule": settings, "torch_schedule": in_torch, "plateau": False,
                      "replicas": [[*REPLICAS[3], "--set", "statistics_every=1000000"]],
                      "spoilt": [] if i % 2 == 0 else [BATCH + 5, 229]}


def sparse_cases():
    for i, case in enumerate(optimizer_cases("float64", SPARSE, 1e-10, lambda i: [
            REPLICAS[i % 3], REPLICAS[3 + i % 2]])):
        yield case | {"name": f"sparse-{i}", "net": "Words"}


def spoilt_cases():
    """Some samples of the second and of the last step of an epoch, which are skipped."""
    for i, case in enumerate(optimizer_cases("float64", OPTIMIZERS[1:4], 1e-10, lambda i: [
            REPLICAS[i], REPLICAS[3 + i % 2]])):
        yield case | {"name": f"spoilt-{i}", "spoilt": [BATCH + 5, 229]}


def same_parameters(folder, case, name, trained):
    weights = folder.file(name)
    code, _, said = folder.command("export", trained, weights)
    check(code == 0, "the model was not exported", said)
    header, elements = read_safetensors(weights)
    for tensor, wanted in read_json(folder.file(case["name"] + "-trained.json")).items():
        begin, end = header[tensor]["data_offsets"]
        ours = array.array("d" if case["dtype"] == "float64" else "f", elements[begin:end])
        largest = max(map(abs, wanted))
        check(len(ours) == len(wanted) and
              all(abs(a - b) <= case["tolerance"] * largest for a, b in zip(ours, wanted)),
              "other parameters than PyTorch's", tensor, ours.tolist()[:10], wanted[:10])


def train(folder, cases):
    script = folder.write("script.py", REFERENCE)
    known = [case | {"program": folder.program(case["name"])} for case in cases]
    listed = folder.write("cases.json", json.dumps(known))
    optimizers = os.path.join(os.path.dirname(__file__), "../unit/optim")
    run_command([PYTHON, script, listed, optimizers, str(EPOCHS)], 0, 500, cwd=folder.path)
    for case in known:
        losses = json.loads(read(folder.file(case["name"] + "-losses.json")))
        wanted = dict(enumerate(losses, start=1))
        check(len(wanted) == STEPS_PER_EPOCH * EPOCHS, "unexpected steps", len(wanted))
        finite = [loss for loss in losses if loss is not None]
        check(finite[-1] < finite[0], "PyTorch does not learn it", case, losses)
        last = case["samples"] - (STEPS_PER_EPOCH - 1) * BATCH
        for extra in case["replicas"]:
            print(case["optimizer"], case["schedule"], *extra, flush=True)
            run = folder.run(case["program"], "--fresh", *extra)
            run.expect_end(0, 200)
            check([event["batch"] for event in run.of("step")][:5] == [BATCH] * 4 + [last],
                  "a sample was left out or repeated", run.of("step"))
            same_losses(run.losses(), wanted, case["tolerance"])
            same_parameters(folder, case, f"{case['name']}.safetensors", run.end_event()["model"])


def replicas_as_torch(folder, _):
    """Every sample counts once an epoch, also where the replicas' shares differ."""
    train(folder, optimizer_cases("float32", [OPTIMIZERS[1]], 1e-5, lambda _: REPLICAS))


def optimizers_as_torch(folder, _):
    """In fp64, where rounding cannot hide a difference."""
    dense = optimizer_cases("float64", OPTIMIZERS, 1e-10, lambda i: [REPLICAS[i % 3]])
    train(folder, [*dense, *sparse_cases(), *spoilt_cases()])


def schedules_as_torch(folder, _):
    """Progress is the number of steps, where all have the initial batch, skipped ones too."""
    train(folder, [*schedule_cases(), *spoilt_schedule_cases(), *partial_schedule_cases()])


if not PYTHON:
    skip_all("ADAPTDL_TEST_PYTHON names no Python with torch and numpy")
main(replicas_as_torch, optimizers_as_torch, schedules_as_torch)
