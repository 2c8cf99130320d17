// What a checkpoint and a new replica take over.

#include "runtime/session/training_state.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/session/step_accounting.h"
#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"

namespace {

using namespace adaptdl;
using Precision = TrainingSpec::Precision;

class Model : public Program {
 public:
  at::Tensor weight = at::zeros({3}).set_requires_grad(true);
  at::Tensor conv = at::zeros({2}), scale = at::zeros({1});

  std::vector<NamedTensor> parameters() override { return {{"weight", weight}}; }
  std::vector<NamedTensor> buffers() override { return {}; }
  std::vector<NamedTensor> frozen() override { return {{"scale", scale}, {"conv", conv}}; }
  at::Tensor training_step(const std::vector<at::Tensor>&) override { return {}; }
  void train(bool) override {}
  void save(const std::string&) override {}
};

TrainingSpec spec_of(Precision precision) {
  TrainingSpec spec;
  spec.batch.initial = spec.batch.max = spec.batch.atomic_max = 16;
  spec.precision = precision;
  return spec;
}

// A replica with these settings.
struct Replica {
  explicit Replica(Precision precision) : spec(spec_of(precision)) {}

  TrainingSpec spec;
  Model model;
  Optimizer optimizer{spec.optimizer, model.parameters()};
  Schedule schedule{spec.schedule, 10};
  BatchPolicy batch_policy{spec, 160};
  Checkpointer checkpointer{"", 1, 60, {}};
  TrainingState state{model, spec, optimizer, schedule, batch_policy, checkpointer};
};

}  // namespace

TEST_CASE("a new replica takes a loss scale as it is, also one that has fallen to 1") {
  for (const double factor : {1.0, 2.0, 65536.0}) {
    Replica root(Precision::fp16), receiver(Precision::fp16);
    root.state.progress.loss_scale = {factor, 7};
    receiver.state.restore(root.state.summary());
    CHECK(receiver.state.progress.loss_scale.factor == factor);
    CHECK(digest(receiver.state.progress) == digest(root.state.progress));
    // And so does a run that continues.
    Replica next(Precision::fp16);
    next.state.resume(root.state.summary());
    CHECK(next.state.progress.loss_scale.factor == factor);
    CHECK(next.state.progress.loss_scale.steps == 7);
  }
}

TEST_CASE("a loss scale begins anew where the precision has changed") {
  Replica half(Precision::fp16), full(Precision::fp32), brain(Precision::bf16);
  half.state.progress.loss_scale = {1, 7};
  full.state.resume(half.state.summary());
  CHECK(full.state.progress.loss_scale.factor == 1);
  CHECK(full.state.progress.loss_scale.steps == 0);
  half.state.resume(brain.state.summary());
  CHECK(half.state.progress.loss_scale.factor == 65536);

  // Of an earlier version, which did not say the precision.
  auto earlier = full.state.summary();
  earlier.erase("precision");
  half.state.resume(earlier);
  CHECK(half.state.progress.loss_scale.factor == 65536);
  half.state.progress.loss_scale = {4096, 7};
  earlier = half.state.summary();
  earlier.erase("precision");
  half.state.resume(earlier);
  CHECK(half.state.progress.loss_scale.factor == 4096);
  full.state.resume(earlier);
  CHECK(full.state.progress.loss_scale.factor == 1);
}

TEST_CASE("finish() holds for a later start, until the settings change") {
  Replica before(Precision::fp32), same(Precision::fp32), other(Precision::bf16);
  CHECK(before.state.summary().at("finished_by") == "");
  before.state.last_epoch = 11;
  same.state.resume(before.state.summary());
  CHECK(same.state.last_epoch == 11);
  other.state.resume(before.state.summary());
  CHECK(other.state.last_epoch == -1);
  other.state.restore(before.state.summary());  // of the same run
  CHECK(other.state.last_epoch == 11);

  auto of_another = before.state.summary();
  of_another["finished_by"] = "0";
  same.state.resume(of_another);
  CHECK(same.state.last_epoch == -1);
}

TEST_CASE("frozen tensors that came from a file are part of the state, others are not") {
  Replica root(Precision::fp32), receiver(Precision::fp32);
  const auto names = [](const Replica& replica) {
    std::vector<std::string> result;
    for (const auto& named : replica.state.tensors()) {
      if (!named.name.starts_with("optimizer/")) result.push_back(named.name);
    }
    return result;
  };
  CHECK(names(root) == std::vector<std::string>{"parameter/weight"});
  root.state.loaded_frozen = {"conv"};
  root.state.frozen_digest = "ab";
  receiver.state.restore(root.state.summary());
  CHECK(names(receiver) == std::vector<std::string>{"parameter/weight", "frozen/conv"});
  CHECK(receiver.state.tensors().back().tensor.is_same(receiver.model.conv));
  CHECK(receiver.state.frozen_digest == "ab");

  // Of an earlier version, which saved none.
  auto earlier = root.state.summary();
  earlier.erase("frozen");
  earlier.erase("frozen_digest");
  receiver.state.resume(earlier);
  CHECK(names(receiver) == std::vector<std::string>{"parameter/weight"});
  CHECK(receiver.state.frozen_digest.empty());

  receiver.state.loaded_frozen = {"gone"};
  CHECK_ERROR(receiver.state.tensors(), "the program has no frozen tensor gone");
}

TEST_CASE("the learning rate that is told of a batch is that of its first step") {
  Replica replica(Precision::fp32);
  replica.spec.rule = TrainingSpec::ScalingRule::linear;
  const StepAccounting accounting(replica.model, replica.optimizer, replica.schedule, replica.spec,
                                  160);
  Progress& progress = replica.state.progress;
  progress.batch = {.atomic = 24, .micro_steps = 1};
  CHECK(accounting.next_lr(progress, 2) == doctest::Approx(3 * replica.optimizer.base_lr(0)));
  progress.batch.atomic = 8;
  CHECK(accounting.next_lr(progress, 2) == doctest::Approx(replica.optimizer.base_lr(0)));

  replica.spec.rule = TrainingSpec::ScalingRule::adascale;
  progress.batch.atomic = 24;
  progress.statistics.update(2, 1, {{3, 2, 0, 0}});
  CHECK(accounting.next_lr(progress, 2) ==
        doctest::Approx(progress.statistics.gain(3, 0) * replica.optimizer.base_lr(0)));
}

TEST_CASE("a run that continues with another initial batch or other data is at the same epoch") {
  Replica before(Precision::fp32), after(Precision::fp32), same(Precision::fp32);
  before.state.progress.iterations = 25;  // 2.5 epochs
  before.state.progress.fresh = 3;
  before.state.progress.statistics.update(2, 1, {{3, 2, 0, 0}});
  const auto saved = before.state.summary();
  CHECK(same.state.resume(saved).empty());
  CHECK(digest(same.state.progress) == digest(before.state.progress));

  after.spec.batch.initial = 8;
  after.schedule = Schedule({}, 20);
  CHECK(after.state.resume(saved) ==
        "an epoch has 20 iterations of the initial batch, 10 before: training goes on at the same "
        "epoch, with new gradient statistics");
  CHECK(after.state.progress.iterations == 50);
  CHECK(after.state.progress.statistics.empty());
  CHECK(after.state.progress.fresh == 0);

  after.spec.batch.initial = 16;  // twice as many samples
  CHECK(after.state.resume(saved).find("statistics") == std::string::npos);
  CHECK(after.state.progress.iterations == 50);
  CHECK(!after.state.progress.statistics.empty());

  auto earlier = saved;  // of a version that did not save the units
  earlier.erase("initial_batch");
  earlier.erase("iterations_per_epoch");
  CHECK(after.state.resume(earlier).empty());
  CHECK(after.state.progress.iterations == 25);
}

TEST_CASE("with a fixed batch iterations are samples, and each pass is an epoch") {
  Replica replica(Precision::fp32);
  const StepAccounting accounting(replica.model, replica.optimizer, replica.schedule, replica.spec,
                                  160);
  Progress before = replica.state.progress;
  const auto after_step = [&](double samples, bool skipped, bool ends_pass) {
    Prepared prepared;
    prepared.after = before;
    prepared.lr_factors = {1};
    prepared.facts.summary.samples = samples;
    prepared.facts.summary.nonfinite = skipped;
    data::Step step{.from = before.position, .ends_pass = ends_pass};
    step.next = step.from;
    step.next.index += static_cast<int64_t>(samples);
    accounting.end_step(prepared, before, {step}, {});
    before = prepared.after;
    return prepared.facts;
  };
  after_step(24, /*skipped=*/false, /*ends_pass=*/false);
  CHECK(before.iterations == 1.5);
  CHECK(accounting.epochs(before) == 0.15);
  const StepFacts facts = after_step(24, /*skipped=*/true, /*ends_pass=*/false);
  CHECK(before.iterations == 3);
  CHECK(facts.gain == 0);
  CHECK(facts.efficiency == 0);
  // The pass ends early, or after more than its iterations.
  after_step(24, /*skipped=*/false, /*ends_pass=*/true);
  CHECK(before.iterations == 10);
  CHECK(accounting.epochs(before) == 1);
  CHECK(before.finished);
  CHECK(before.position.epoch == 1);
  after_step(200, /*skipped=*/false, /*ends_pass=*/false);
  CHECK(before.iterations == 20);
}

TEST_CASE("an epoch of continuous data is one of whole batches") {
  TrainingSpec spec = spec_of(Precision::fp32);
  CHECK(iterations_per_epoch(spec, 170) == 170.0 / 16);
  spec.data.continuous = true;
  CHECK(iterations_per_epoch(spec, 170) == 10);
  CHECK(iterations_per_epoch(spec, 8) == 0.5);
}

TEST_CASE("the rest of an epoch is worth no more than its samples") {
  Replica replica(Precision::fp32);
  replica.spec.batch.adaptive = true;
  const StepAccounting accounting(replica.model, replica.optimizer, replica.schedule, replica.spec,
                                  160);
  Progress before = replica.state.progress;
  before.batch = {.atomic = 16, .micro_steps = 1};
  before.statistics.update(2, 1, {{3, 2, 0, 0}});
  REQUIRE(before.statistics.gain(0.25) > 0.25);
  Prepared prepared;
  prepared.after = before;
  prepared.lr_factors = {1};
  prepared.facts.summary.samples = 4;
  accounting.end_step(prepared, before, {{.samples = 4, .consumed = 4, .ends_pass = true}}, {});
  CHECK(prepared.after.iterations == 0.25);
  CHECK(prepared.facts.efficiency == 1);
}
