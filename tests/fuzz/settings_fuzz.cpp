// adaptdl.yaml. Lines that begin with "--set " are overrides.

#include <string>

#include "core/base/error.h"
#include "core/job/training_spec.h"
#include "runtime/optim/schedule.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

// What the format is made of.
std::vector<std::string> words() {
  return {"kind: ",
          "epochs: ",
          "--set ",
          "\n--set batch.initial=",
          "[",
          "]",
          "{",
          "}",
          ": ",
          "- ",
          "&a ",
          "*a",
          "<<: ",
          "!!int ",
          "\"",
          "'",
          "|\n",
          ">\n",
          "# ",
          "---\n",
          "...\n",
          "? ",
          "~",
          "null",
          "true",
          "1e308",
          "-1",
          "0",
          "9223372036854775808",
          ".inf",
          ".nan",
          "0x10",
          "1_000",
          "legw",
          "plateau",
          "one_cycle",
          "cosine_restarts",
          "polynomial",
          "linear",
          "rmsprop",
          "nadam",
          "adadelta",
          "lion",
          "adagrad",
          "synthetic",
          "window: 4",
          "nesterov: true",
          "\xff",
          "\t",
          "\xef\xbb\xbf",
          "format: 2\n"};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string yaml;
  std::vector<std::string> overrides;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    std::string line(rest.substr(0, end));
    rest.remove_prefix(end);
    if (!line.starts_with("--set ")) {
      yaml += line;
      continue;
    }
    line.erase(0, 6);
    if (line.ends_with('\n')) line.pop_back();
    overrides.push_back(line);
  }
  try {
    const TrainingSpec spec = parse_training_spec(yaml, "adaptdl.yaml", overrides);
    // What was accepted must hold what the rest of the program relies on.
    for (const SettingLine& line : describe(spec)) {
      ADAPTDL_CHECK(!line.key.empty() && !line.meaning.empty());
    }
    ADAPTDL_CHECK(spec.batch.initial >= 1 && spec.batch.max >= spec.batch.initial &&
                  spec.batch.atomic_max >= spec.batch.atomic_min && spec.batch.atomic_min >= 1);
    ADAPTDL_CHECK(spec.epochs > 0 && spec.optimizer.defaults.lr > 0 && !spec.data.train.empty());
    ADAPTDL_CHECK(spec.max_steps >= 0 && spec.max_time_s >= 0);
    ADAPTDL_CHECK(!spec.early_stopping || (spec.best && spec.early_stopping->patience >= 1));
    const Schedule schedule(spec.schedule, 10.0);
    for (const double progress : {0.0, 1.0, 25.0, 1e9}) {
      ADAPTDL_CHECK(schedule.factor(progress) >= 0);
    }
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"(format: 1
name: digits
data:
  train: [{format: npy, path: images.npy, dtype: float32, scale: 0.0625}, {path: labels.npy}]
  validation_fraction: 0.2
batch: {initial: 64, adaptive: true, max: 1024, atomic: [16, 256], accumulation: true}
optimizer:
  kind: sgd
  lr: 0.05
  momentum: 0.9
  groups: [{match: "*.bias", weight_decay: 0}]
schedule: [{kind: warmup, epochs: 1, start_factor: 0.1}, {kind: cosine, epochs: 29}]
rule: adascale
precision: fp32
epochs: 30
)",
           R"(data: &d
  train:
  - {format: synthetic, samples: 100, shape: [1, 8, 8], seed: 3}
  - format: synthetic
    samples: 100
    classes: 10
  validation: [{format: csv, path: x.csv, header_lines: 1, columns: [0, 64]}, {format: idx, path: y}]
batch: {initial: 32}
optimizer: {kind: adam, lr: 1e-3, beta2: 0.99, amsgrad: true}
schedule:
- {kind: multi_step, milestones: [1, 2.5], gamma: 0.1, epochs: 4}
- {kind: plateau, metric: accuracy, maximize: true, patience: 3, cooldown: 2, epochs: 5}
- {kind: one_cycle, three_phase: true, pct_start: 0.5, div_factor: 10, epochs: 3}
- {kind: cosine_restarts, every_epochs: 0.5, multiplier: 2, epochs: 4}
- {kind: linear, epochs: 0.5}
- {kind: polynomial, power: 0.5}
best: {metric: accuracy, mode: max}
early_stopping: {patience: 3, min_delta: 0.01}
epochs: 24
max_steps: 1000
max_time: 1h30m
from: {path: model.pt, rename: ["module.*=*"], ignore: ["head.*", x]}
--set optimizer.lr=0.1
--set data.train.0.shape=[3, 3]
)"},
          words()};
}
