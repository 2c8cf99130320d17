// What a checkpoint and a new replica take over.

#include "runtime/session/training_state.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
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
