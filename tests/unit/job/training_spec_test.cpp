#include "core/job/training_spec.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/unit/base/expect_error.h"

namespace training_spec_test {

using namespace adaptdl;

namespace {

const char* const kDigits = R"(format: 1
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
  clip_norm: 0
schedule: [{kind: warmup, epochs: 1, start_factor: 0.1}, {kind: cosine, epochs: 29}]
rule: adascale
precision: fp32
epochs: 30
)";

const char* const kSmall = R"(data: {train: [{path: x.npy}]}
batch: {initial: 32}
optimizer: {kind: adam, lr: 0.001}
)";

TrainingSpec parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_training_spec(yaml, "adaptdl.yaml", overrides);
}

// The message of the Error that the settings are refused with; "" when they are not.
std::string refusal(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse(yaml, overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What kSmall with this override is refused with.
std::string refused_set(const std::string& override) {
  return refusal(kSmall, {override});
}

void check_contains(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, "'" << text << "' lacks '" << part << "'");
}

std::string value_of(const std::vector<SettingLine>& lines, const std::string& key) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const SettingLine& line) { return line.key == key; });
  return found == lines.end() ? "(no such line)" : found->value;
}

}  // namespace

TEST_CASE("the example of the manual is read field by field") {
  const TrainingSpec spec = parse(kDigits);
  CHECK(spec.name == "digits");
  REQUIRE(spec.data.train.size() == 2);
  CHECK(spec.data.train[0].format == DataSource::Format::npy);
  CHECK(spec.data.train[0].path == "images.npy");
  CHECK(spec.data.train[0].dtype == "float32");
  CHECK(spec.data.train[0].scale == 0.0625);
  CHECK(spec.data.train[1].path == "labels.npy");
  CHECK(spec.data.train[1].dtype.empty());
  CHECK(spec.data.validation_fraction == 0.2);
  CHECK(spec.batch.initial == 64);
  CHECK(spec.batch.adaptive);
  CHECK(spec.batch.max == 1024);
  CHECK(spec.batch.atomic_min == 16);
  CHECK(spec.batch.atomic_max == 256);
  CHECK(spec.optimizer.kind == OptimizerSpec::Kind::sgd);
  CHECK(spec.optimizer.defaults.lr == 0.05);
  CHECK(spec.optimizer.defaults.momentum == 0.9);
  REQUIRE(spec.optimizer.groups.size() == 1);
  CHECK(spec.optimizer.groups[0].match == "*.bias");
  CHECK(spec.optimizer.groups[0].settings.momentum == 0.9);  // inherited
  REQUIRE(spec.schedule.size() == 2);
  CHECK(spec.schedule[0].kind == SchedulePart::Kind::warmup);
  CHECK(spec.schedule[0].start_factor == 0.1);
  CHECK(spec.schedule[1].kind == SchedulePart::Kind::cosine);
  CHECK(spec.schedule[1].epochs == 29);
  CHECK(spec.rule == TrainingSpec::ScalingRule::adascale);
  CHECK(spec.precision == TrainingSpec::Precision::fp32);
  CHECK(spec.epochs == 30);
}

TEST_CASE("what is left out has its default, and bounds follow from one another") {
  const TrainingSpec spec = parse(kSmall);
  CHECK(spec.name.empty());
  CHECK_FALSE(spec.rule.has_value());
  CHECK(spec.batch.max == 32);
  CHECK(spec.batch.atomic_min == 1);
  CHECK(spec.batch.atomic_max == 32);
  CHECK(spec.optimizer.defaults.beta2 == 0.999);
  CHECK(spec.checkpoint_interval_s == 60);
  CHECK(spec.schedule.empty());
}

TEST_CASE("overrides are applied before validation") {
  const TrainingSpec spec =
      parse(kDigits, {"optimizer.lr=0.1", "data.train.0.path=y.npy", "epochs=40", "name=other",
                      "batch.atomic=[8, 128]", "rule=linear", "data.train.0.shape=[1, 8, 8]"});
  CHECK(spec.optimizer.defaults.lr == 0.1);
  CHECK(spec.optimizer.groups[0].settings.lr == 0.1);
  CHECK(spec.data.train[0].path == "y.npy");
  CHECK(spec.data.train[0].shape == std::vector<int64_t>{1, 8, 8});
  CHECK(spec.epochs == 40);
  CHECK(spec.name == "other");
  CHECK(spec.batch.atomic_max == 128);
  CHECK(spec.rule == TrainingSpec::ScalingRule::linear);
  check_contains(refusal(kDigits, {"optimizer.lr=fast"}),
                 "--set optimizer.lr=fast: optimizer.lr: ");
  check_contains(refusal(kDigits, {"optimizer.lrr=1"}), "did you mean lr?");
}

TEST_CASE("limits, the best model and early stopping") {
  const TrainingSpec none = parse(kDigits);
  CHECK_FALSE(none.best.has_value());
  CHECK_FALSE(none.early_stopping.has_value());
  CHECK(none.max_steps == 0);
  CHECK(none.max_time_s == 0);
  const TrainingSpec spec =
      parse(kDigits, {"max_steps=100", "max_time=1h30m", "best={metric: accuracy, mode: max}",
                      "early_stopping.patience=3"});
  CHECK(spec.max_steps == 100);
  CHECK(spec.max_time_s == 5400);
  CHECK(spec.best->metric == "accuracy");
  CHECK(spec.best->mode == BestSpec::Mode::max);
  CHECK(spec.early_stopping->patience == 3);
  CHECK(spec.early_stopping->min_delta == 0);
  CHECK(value_of(describe(spec), "max_time") == "5400s");
  CHECK(value_of(describe(spec), "best.mode") == "max");
  CHECK(value_of(describe(spec), "early_stopping.patience") == "3 validations");
  // Early stopping needs a metric, so it implies the default one.
  CHECK(parse(kDigits, {"early_stopping.patience=1"}).best->metric == "loss");
  CHECK(parse(kDigits, {"best={}"}).best->mode == BestSpec::Mode::min);
  check_contains(refusal(kDigits, {"max_time=soon"}), "max_time: 'soon' is not allowed");
  check_contains(refusal(kDigits, {"max_time=-1"}), "max_time: ");
  check_contains(refusal(kDigits, {"early_stopping={}"}), "early_stopping.patience: is missing");
  check_contains(refusal(kDigits, {"early_stopping.patience=0"}), "early_stopping.patience: ");
  check_contains(refusal(kDigits, {"best.metric=\"\""}), "best.metric: is empty");
  check_contains(refused_set("best.metric=loss"), "best: the best model needs validations");
  check_contains(refused_set("early_stopping.patience=1"), "early_stopping needs validations");
}

TEST_CASE("weights to start from") {
  CHECK_FALSE(parse(kSmall).from.has_value());
  const TrainingSpec spec = parse(kSmall, {"from.path=/x/model.pt", "from.ignore=[head.*]",
                                           "from.rename=[\"module.*=*\", a=b]"});
  CHECK(spec.from->path == "/x/model.pt");
  CHECK(spec.from->ignore == std::vector<std::string>{"head.*"});
  CHECK(spec.from->rename == std::vector<std::string>{"module.*=*", "a=b"});
  CHECK(value_of(describe(spec), "from.rename") == "[module.*=*, a=b]");
  check_contains(refused_set("from.ignore=[x]"), "from.path: is missing");
  check_contains(refused_set("from.path=\"\""), "from.path: is empty");
  check_contains(refused_set("from={path: x, rename: [a]}"),
                 "from.rename: 'a' is not OLD=NEW, such as module.*=*");
  check_contains(refused_set("from={path: x, ignore: a}"), "from.ignore: ");
}

TEST_CASE("a cosine without length lasts to the end of training") {
  const TrainingSpec spec =
      parse(kSmall, {"epochs=10", "schedule=[{kind: warmup, epochs: 2}, {kind: cosine}]"});
  CHECK(spec.schedule[1].epochs == 8);
}

TEST_CASE("a part without length follows the epochs of a program's own loop") {
  const std::vector<std::string> parts = {"schedule=[{kind: warmup, epochs: 2}, {kind: cosine}]"};
  TrainingSpec spec = parse_training_spec(kSmall, "adaptdl.yaml", parts, /*own_data=*/true);
  CHECK(spec.schedule[1].epochs == 0);
  CHECK_ERROR(fit_schedule(spec), "schedule.1.epochs: is missing");
  spec.epochs = 10;
  fit_schedule(spec);
  CHECK(spec.schedule[1].epochs == 8);
  spec.epochs = 5;
  fit_schedule(spec);
  CHECK(spec.schedule[1].epochs == 3);
  // A length that was given stays, and so does the refusal where the settings have `epochs`.
  spec = parse(kSmall, {"epochs=10", "schedule=[{kind: cosine, epochs: 4}]"});
  spec.epochs = 20;
  fit_schedule(spec);
  CHECK(spec.schedule[0].epochs == 4);
  CHECK_ERROR(
      parse_training_spec(kSmall, "adaptdl.yaml", {parts[0], "epochs=2"}, /*own_data=*/true),
      "schedule.1.epochs: is missing");
}

TEST_CASE("optimizers and schedules have defaults of their own") {
  const auto optimizer = [](const char* value) {
    return parse(kSmall, {std::string("optimizer=") + value}).optimizer;
  };
  CHECK(optimizer("{kind: adadelta}").defaults.lr == 1);
  CHECK(optimizer("{kind: adadelta, lr: 0.5}").defaults.lr == 0.5);
  CHECK(optimizer("{kind: adadelta, groups: [{match: a}]}").groups[0].settings.lr == 1);
  CHECK(optimizer("{kind: adadelta}").defaults.rho == 0.9);
  CHECK(optimizer("{kind: lion, lr: 1}").defaults.beta2 == 0.99);
  CHECK(optimizer("{kind: lamb, lr: 1}").defaults.beta2 == 0.999);
  CHECK(optimizer("{kind: nadam, lr: 1}").defaults.momentum_decay == 0.004);
  const auto parts =
      parse(kSmall, {"epochs=9",
                     "schedule=[{kind: linear, epochs: 2}, {kind: warmup, epochs: 3}, "
                     "{kind: one_cycle}]"})
          .schedule;
  CHECK(parts[0].start_factor == 1.0 / 3);
  CHECK(parts[0].final_factor == 1);
  CHECK(parts[1].start_factor == 0);
  CHECK(parts[2].epochs == 4);
}

TEST_CASE("each refusal names file, line and field, and what is allowed") {
  const std::string head(kSmall);
  check_contains(refusal(head + "epochs: 0\n"), "adaptdl.yaml:4: epochs: ");
  check_contains(refusal(head + "epochs: 0\n"), "above 0");
  check_contains(refusal(head + "epoch: 3\n"), "adaptdl.yaml:4: epoch: ");
  check_contains(refusal(head + "epoch: 3\n"), "did you mean epochs?");
  check_contains(refusal(head + "seed: -1\n"), "adaptdl.yaml:4: seed: ");
  check_contains(refusal(head + "precision: fp8\n"), "one of fp32, bf16, fp16");
  check_contains(refusal(head + "max_nonfinite: many\n"), "an integer");
  check_contains(refusal(head + "name: a/b\n"), "adaptdl.yaml:4: name: ");
  check_contains(refusal(head + "checkpoint_interval_s: .inf\n"), "checkpoint_interval_s: ");
  check_contains(refusal("batch: {initial: 3}\n"), "data: is missing");
  check_contains(refusal("data: {train: []}\nbatch: {initial: 1}\noptimizer: {lr: 1}\n"),
                 "adaptdl.yaml:1: data.train: ");
  check_contains(refusal("data: {train: [{path: x}]}\nbatch: {}\noptimizer: {lr: 1}\n"),
                 "adaptdl.yaml:2: batch.initial: is missing");
}

TEST_CASE("deterministic: what follows from the replicas or the time is refused") {
  const std::string head(kSmall);
  const auto spec = parse_training_spec(head + "deterministic: true\n", "adaptdl.yaml");
  CHECK(spec.shards() == 8);
  CHECK(parse_training_spec(head, "adaptdl.yaml").shards() == 0);
  check_contains(refusal(head + "deterministic_shards: 4\n"), "only with deterministic: true");
  const std::string on = head + "deterministic: true\n";
  check_contains(refusal(on + "max_time: 1h\n"), "max_time: contradicts deterministic");
  check_contains(refusal(on + "gradient_compression: bf16\n"),
                 "gradient_compression: contradicts deterministic");
}

TEST_CASE("a newer format is refused before anything else") {
  const std::string message = refusal("format: 2\nwhatever: [1, 2]\n");
  check_contains(message, "adaptdl.yaml:1: format: ");
  check_contains(message, "newer adaptdl");
}

TEST_CASE("a setting of another kind is refused with the kinds that know it") {
  check_contains(refused_set("optimizer.momentum=0.9"),
                 "optimizer.momentum: is not a setting of adam; it belongs to sgd, rmsprop");
  check_contains(refused_set("schedule=[{kind: step, patience: 3}]"),
                 "schedule.0.patience: is not a setting of step");
  check_contains(refused_set("data.train.0.columns=[0, 3]"), "it belongs to csv");
}

TEST_CASE("images, tar files and texts say what they need") {
  const auto source = [](const std::string& settings) {
    return refused_set("data={train: [{path: x, " + settings + "}]}");
  };
  CHECK(source("format: images, shape: [3, 32, 48]").empty());
  CHECK(source("format: image_labels").empty());
  check_contains(source("format: images"), "data.train.0.shape: is missing; images need");
  check_contains(source("format: images, shape: [32, 32, 3]"), "is not the shape of an image");
  check_contains(source("format: images, shape: [1, 1, 20000]"), "a side may have at most 16384");
  check_contains(source("format: images, shape: [1, 8, 8], window: 2"), "it belongs to npy, idx");
  check_contains(source("format: images, shape: [1, 8, 8], member: jpg"), "it belongs to tar");

  CHECK(source("format: tar, member: cls").empty());
  CHECK(source("format: tar, member: mask.png, shape: [1, 8, 8]").empty());
  check_contains(source("format: tar"), "data.train.0.member: is missing");
  check_contains(source("format: tar, member: jpg"), "data.train.0.shape: is missing");
  check_contains(source("format: tar, member: txt"), "read are jpg, jpeg, png, cls and npy");

  CHECK(source("format: text, window: 8").empty());
  CHECK(source("format: text, window: 8, tokens: words, vocabulary: v.txt").empty());
  check_contains(source("format: text"), "data.train.0.window: is missing");
  check_contains(source("format: text, window: 8, tokens: pieces"), "vocabulary: is missing");
  check_contains(source("format: text, window: 8, vocabulary: v"), "not used by tokens: bytes");
}

TEST_CASE("contradictions between fields are refused") {
  check_contains(refused_set("batch.max=31"), "batch.max: 31 is below batch.initial");
  check_contains(refused_set("batch.atomic=[64, 128]"),
                 "batch.atomic.0: 64 is above batch.initial");
  check_contains(refused_set("batch={initial: 32, atomic_min: 8, atomic_max: 4}"),
                 "batch.atomic_max: 4 is below atomic_min");
  check_contains(refused_set("batch={initial: 32, atomic: [1, 2], atomic_max: 4}"),
                 "batch.atomic_max: is already given by batch.atomic");
  check_contains(refused_set("rule=legw"), "legw_warmup_epochs: ");
  check_contains(refused_set("legw_warmup_epochs=3"), "legw_warmup_epochs: ");
  check_contains(refused_set("data={train: [{path: x}], validation: [{path: y}], "
                             "validation_fraction: 0.1}"),
                 "data.validation_fraction: contradicts");
  check_contains(refused_set("data={train: [{path: x}], continuous: true, shuffle: true}"),
                 "data.shuffle: contradicts");
  check_contains(refused_set("data={train: [{path: x}], validation: [{path: y}, {path: z}]}"),
                 "data.validation: has 2 tensors");
  check_contains(refused_set("data={train: [{format: synthetic, shape: [3]}]}"),
                 "data.train.0.samples: ");
  check_contains(refused_set("data={train: [{format: synthetic, samples: 3}]}"),
                 "data.train.0.shape: ");
  check_contains(
      refused_set("data={train: [{format: synthetic, samples: 3, shape: [3], path: x}]}"),
      "data.train.0.path: is not a setting of synthetic");
  check_contains(refused_set("data={train: [{dtype: int64}]}"), "data.train.0.path: is missing");
  check_contains(refused_set("data={train: [{path: x, window_shift: 1}]}"),
                 "data.train.0.window_shift: ");
  check_contains(refused_set("data={train: [{path: x, shape: [1000000000, 1000000000, 1000000000]}]"
                             "}"),
                 "data.train.0.shape: ");
  check_contains(refused_set("data={train: [{format: csv, path: x, columns: [3, 3]}]}"),
                 "data.train.0.columns.1: ");
  check_contains(refused_set("optimizer={kind: sgd, lr: 1, nesterov: true}"),
                 "optimizer.nesterov: ");
  check_contains(
      refused_set("optimizer={kind: sgd, lr: 1, nesterov: true, momentum: 0.9, dampening: 0.1}"),
      "dampening");
  check_contains(refused_set("optimizer={kind: sgd, lr: 1, nesterov: true, momentum: 0.9, groups: "
                             "[{match: a, momentum: 0}]}"),
                 "optimizer.groups.0.momentum: ");
  check_contains(refused_set("optimizer={kind: sgd, lr: 1, groups: [{match: \"\"}]}"),
                 "optimizer.groups.0.match: ");
  check_contains(refused_set("optimizer={kind: sgd, lr: 1, groups: [{lr: 2}]}"),
                 "optimizer.groups.0.match: is missing");
  check_contains(refused_set("schedule=[{kind: warmup}]"), "schedule.0.epochs: ");
  check_contains(refused_set("schedule=[{kind: step}, {kind: cosine}]"), "schedule.0.epochs: ");
  check_contains(refused_set("schedule=[{kind: warmup, epochs: 1}, {kind: cosine}]"),
                 "schedule.1.epochs: ");
  const auto cycled = [](const std::string& optimizer) {
    return refusal(kSmall, {"schedule=[{kind: one_cycle}]", "optimizer=" + optimizer});
  };
  check_contains(cycled("{kind: sgd, lr: 1}"), "schedule.0.cycle_momentum: ");
  check_contains(cycled("{kind: sgd, lr: 1, momentum: 0.9, groups: [{match: a, momentum: 0}]}"),
                 "optimizer.momentum is 0");
  check_contains(cycled("{kind: adadelta}"), "does not have");
  check_contains(cycled("{kind: nadam, lr: 1}"), "a schedule of its own");
  CHECK(cycled("{kind: sgd, lr: 1, momentum: 0.9}").empty());
  CHECK(cycled("{kind: lion, lr: 1}").empty());
  check_contains(refused_set("schedule=[{kind: one_cycle}, {kind: constant}]"),
                 "schedule.0.epochs: ");
  check_contains(refused_set("schedule=[{kind: constant, epochs: 1}, {kind: polynomial}]"),
                 "schedule.1.epochs: ");
  check_contains(refused_set("schedule=[{kind: plateau, threshold: 1.5}]"), "threshold_mode: rel");
  check_contains(refused_set("schedule=[{kind: one_cycle, div_factor: 0.5}]"),
                 "schedule.0.div_factor: ");
  check_contains(refused_set("optimizer={kind: sgd}"), "optimizer.lr: is missing");
  check_contains(refused_set("optimizer={kind: nadam, lr: 1, momentum_decay: -1}"),
                 "optimizer.momentum_decay: ");
  check_contains(refused_set("optimizer={kind: lamb, lr: 1, rho: 0.5}"), "it belongs to adadelta");
  check_contains(refused_set("schedule=[{kind: multi_step}]"), "schedule.0.milestones: ");
  check_contains(refused_set("schedule=[{kind: multi_step, milestones: [2, 1]}]"), "rise");
  check_contains(refused_set("schedule=[{kind: multi_step, epochs: 3, milestones: [2, 4]}]"),
                 "past the part's end");
  check_contains(refused_set("schedule=[{kind: plateau}]"), "data.validation_fraction");
}

TEST_CASE("describe lists what applies, in the file's own words") {
  const auto lines = describe(parse(kDigits));
  CHECK(value_of(lines, "optimizer.kind") == "sgd");
  CHECK(value_of(lines, "optimizer.lr") == "0.05");
  CHECK(value_of(lines, "optimizer.beta1") == "(no such line)");
  CHECK(value_of(lines, "optimizer.groups.0.match") == "*.bias");
  CHECK(value_of(lines, "data.train.0.scale") == "0.0625");
  CHECK(value_of(lines, "batch.atomic_max") == "256 samples");
  CHECK(value_of(lines, "checkpoint_interval_s") == "60 seconds");
  CHECK(value_of(lines, "schedule.1.final_factor") == "0");
  CHECK(value_of(lines, "rule") == "adascale");
  for (const SettingLine& line : lines) CHECK_FALSE(line.meaning.empty());
  CHECK(value_of(describe(parse(kSmall)), "rule") == "adamscale");
  CHECK(value_of(describe(parse(kSmall)), "name") == "(the file's name without .pt)");
}

}  // namespace training_spec_test
