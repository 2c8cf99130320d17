"""The stretched lane's applications, based on the measurements published with Pollux.

Read from DIR/profiles/APP (`placements.csv`, `validation-M.csv`; adaptdl-profile(5), CSV). Uses:
- step times on 1 to 4 GPUs of one node, and on 5 to 8 GPUs of two nodes as if they were one node,
  because no job has measurements with more GPUs on one. Scaled so that the shortest step takes
  SHORTEST_S.
- the noise of the gradient in the middle epoch at the smallest batch, for the whole training.
- the smallest and the largest batch, in total and per replica.
A job's length is the time that it would take alone on one replica, which is far less than
published: an epoch takes EPOCH_S of it.
"""

import bisect
import csv
import glob
import math
import os

APPLICATIONS = ("bert", "cifar10", "deepspeech2", "imagenet", "yolov3")
# Digits of a placement: GPUs by node.
PLACEMENTS = ("1", "2", "3", "4", "14", "24", "34", "44")
SHORTEST_S = 0.06
EPOCH_S = 10


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Application:
    """Step times and statistical efficiency of one application, from its true profile."""

    def __init__(self, folder):
        self.name = os.path.basename(folder)
        runs = {int(path.rsplit("-", 1)[1][:-4]): path
                for path in glob.glob(os.path.join(folder, "validation-*.csv"))}
        self.initial, self.max = min(runs), max(runs)
        noise = sorted(self.initial * float(row["grad_var"]) / float(row["grad_sqr"])
                       for row in rows(runs[self.initial]) if float(row["grad_sqr"]) > 0)
        self.noise = noise[len(noise) // 2]  # tr(covariance) / |gradient|^2, samples
        self.times = {}  # replicas -> [(atomic, step_s, sync_s)]
        for row in rows(os.path.join(folder, "placements.csv")):
            if row["placement"] in PLACEMENTS:
                replicas = sum(int(digit) for digit in row["placement"])
                self.times.setdefault(replicas, []).append(
                    (int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])))
        speed = min(step for _, step, _ in self.times[1]) / SHORTEST_S
        for replicas, curve in self.times.items():
            self.times[replicas] = [(atomic, step / speed, sync / speed)
                                    for atomic, step, sync in sorted(curve)]
        self.atomic_min, self.atomic_max = self.times[1][0][0], self.times[1][-1][0]
        self.best = {replicas: self._best(replicas) for replicas in self.times}
        goodput = self.best[1][0]
        # A whole number of the initial batch.
        self.samples = max(1, round(EPOCH_S * goodput / self.initial)) * self.initial

    def times_at(self, replicas, atomic):
        """(step_s, sync_s), linear between measurements."""
        curve = self.times[replicas]
        i = min(max(bisect.bisect_left([point[0] for point in curve], atomic), 1), len(curve) - 1)
        low, high = curve[i - 1], curve[i]
        weight = min(max((atomic - low[0]) / (high[0] - low[0]), 0), 1)
        return tuple(low[k] + weight * (high[k] - low[k]) for k in (1, 2))

    def _best(self, replicas):
        """(goodput, total batch) of the best batch: samples/s, samples."""
        found = (0.0, 0)
        for accumulation in range(16):
            for i in range(40):
                ratio = i / 39
                atomic = round(self.atomic_min * (self.atomic_max / self.atomic_min) ** ratio)
                total = atomic * replicas * (accumulation + 1)
                # A lone replica with a larger batch than the first needs two passes to see its
                # noise.
                lone = replicas == 1 and accumulation == 0 and total > self.initial
                if not self.initial <= total <= self.max or lone:
                    continue
                step, sync = self.times_at(replicas, atomic)
                efficiency = (self.noise + self.initial) / (self.noise + total)
                step += accumulation * (step - sync)
                found = max(found, (total / step * efficiency, total))
        return found

    def speedup(self, replicas):
        return self.best[replicas][0] / self.best[1][0]

    def epochs(self, alone_s):
        return max(1, round(alone_s / EPOCH_S))

    def asks(self):
        """The number of replicas that its users request, by the rule of lanes.py."""
        return max(k for k in (1, 2, 4, 8) if self.speedup(k) >= 0.8 * k)

    def profile(self, epochs, rescale_s, start_s):
        """adaptdl-profile(5), YAML."""
        lines = [f"initial_batch: {self.initial}", f"max_batch: {self.max}",
                 f"atomic_min: {self.atomic_min}", f"atomic_max: {self.atomic_max}",
                 f"max_replicas: {max(self.times)}", f"rescale_s: {rescale_s}",
                 f"start_s: {start_s}", "placements:"]
        lines += [f"  - {{gpus: [{replicas}], atomic: {atomic}, "
                  f"step_s: {step:.6g}, sync_s: {sync:.6g}}}"
                  for replicas, curve in sorted(self.times.items()) for atomic, step, sync in curve]
        lines.append("validation:")
        batch, per_epoch = self.initial, self.samples / self.initial
        while True:
            gain = (self.noise + self.initial) / (self.noise + batch) * batch / self.initial
            lines += [f"  - batch: {batch}", "    epochs:"]
            lines += [f"      - {{progress: {e * per_epoch:.10g}, "
                      f"iterations: {e * per_epoch / gain:.10g}, "
                      f"grad_sqr: 1, grad_var: {self.noise / self.initial:.6g}}}"
                      for e in range(1, epochs + 1)]
            if batch == self.max:
                return "\n".join(lines) + "\n"
            batch = min(2 * batch, self.max)

    def archive(self, path):
        """For elastic_archives: a program whose gradient has this noise at every batch, and which
        computes almost nothing. The loss is linear in w, so its gradient does not change."""
        code = ("def training_step(self, batch: List[Tensor]) -> Tensor:\n"
                "    noise = torch.randn([1024]) / float(batch[0].size(0)) ** 0.5\n"
                f"    return (self.w * (1.0 + {math.sqrt(self.noise):.6f} * noise)).mean()\n")
        settings = (f"format: 1\nname: {self.name}\nepochs: 1\ndata:\n  train:\n"
                    f"    - {{format: synthetic, samples: {self.samples}, shape: [1], seed: 1}}\n"
                    f"batch: {{initial: {self.initial}, adaptive: true, max: {self.max}, "
                    f"atomic_min: {self.atomic_min}, atomic_max: {self.atomic_max}, "
                    "accumulation: true}\noptimizer: {kind: sgd, lr: 0.000001}\n")
        return {"path": path, "code": code, "parameters": {"w": [1024]}, "buffers": {},
                "settings": settings}


def read_applications(folder):
    return {name: Application(os.path.join(folder, "profiles", name)) for name in APPLICATIONS}
