// Optimizer: the numbers of Python's torch.optim, and what it was when its state is moved to
// another process.

#include "runtime/optim/optimizer.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/optim/torch_reference.h"

using namespace adaptdl;

namespace {

using Kind = OptimizerSpec::Kind;

std::vector<NamedTensor> leaves() {
  std::vector<NamedTensor> result;
  for (const char* name : {"layer.weight", "layer.bias", "never"}) {
    result.push_back({name, at::linspace(-1, 1, 6).view({2, 3}).set_requires_grad(true)});
  }
  return result;
}

// The gradient of all but the last parameter at `step`.
void set_gradients(const std::vector<NamedTensor>& parameters, int step) {
  for (size_t i = 0; i + 1 < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i].tensor;
    p.mutable_grad() =
        at::sin(at::arange(6, at::kFloat) * (i + 1) + step).view({2, 3}) + p.detach();
  }
}

OptimizerSpec spec_of(Kind kind, bool all) {
  OptimizerSpec spec;
  spec.kind = kind;
  spec.defaults.lr = 0.05;
  spec.defaults.weight_decay = 0.01;
  if (kind == Kind::sgd || kind == Kind::rmsprop) spec.defaults.momentum = all ? 0.9 : 0.0;
  if (kind == Kind::sgd && all) spec.defaults.nesterov = true;
  spec.defaults.amsgrad = all && (kind == Kind::adam || kind == Kind::adamw);
  spec.defaults.centered = all && kind == Kind::rmsprop;
  if (all) {
    spec.groups.push_back({"*.bias", spec.defaults});
    spec.groups[0].settings.lr = 0.01;
    spec.clip_norm = 1.0;
  }
  return spec;
}

void run(Optimizer& optimizer, const std::vector<NamedTensor>& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_gradients(parameters, step);
    optimizer.step(
        std::vector<double>(static_cast<size_t>(optimizer.group_count()), 1.0 / (1 + step)));
  }
}

}  // namespace

// In float64 they differ by rounding only: 1.1e-16 at the most after 25 steps.
TEST_CASE("optimizers are those of torch.optim") {
  const auto reference = test::torch_reference();
  const int steps = reference.at("steps");
  for (const auto& one : reference.at("optimizers")) {
    CAPTURE(one.at("optimizer").dump());
    const TrainingSpec spec = test::spec_with("optimizer", one.at("optimizer"));
    std::vector<NamedTensor> parameters;
    for (const char* name : {"layer.weight", "layer.bias", "never"}) {
      const auto shape = reference.at("shapes").at(name).get<std::vector<int64_t>>();
      const int64_t count = c10::multiply_integers(shape);
      parameters.push_back(
          {name, at::linspace(-1, 1, count, at::kDouble).view(shape).set_requires_grad(true)});
    }
    Optimizer optimizer(spec.optimizer, parameters);
    for (int step = 0; step < steps; ++step) {
      for (size_t i = 0; i + 1 < parameters.size(); ++i) {
        const at::Tensor p = parameters[i].tensor;
        const at::Tensor numbers =
            at::arange(p.numel(), at::kDouble) * static_cast<double>(i + 1) + step;
        p.mutable_grad() = at::sin(numbers).view(p.sizes()) + 0.3 * p.detach();
      }
      optimizer.step(std::vector<double>(static_cast<size_t>(optimizer.group_count()),
                                         reference.at("lr_factors")[step]));
    }
    for (const NamedTensor& parameter : parameters) {
      const auto wanted = one.at("parameters").at(parameter.name).get<std::vector<double>>();
      const double difference =
          (parameter.tensor.detach().flatten() - at::tensor(wanted, at::kDouble))
              .abs()
              .max()
              .item<double>();
      CHECK_MESSAGE(difference < 1e-14, parameter.name, ": ", difference);
    }
  }
}

TEST_CASE("a moved optimizer goes on bitwise as if it had stayed") {
  for (const Kind kind : {Kind::sgd, Kind::adam, Kind::adamw, Kind::rmsprop, Kind::adagrad}) {
    for (const bool all : {false, true}) {
      for (const int moved_after : {0, 1, 7}) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(all);
        CAPTURE(moved_after);
        const OptimizerSpec spec = spec_of(kind, all);
        const auto stayed = leaves(), before = leaves(), after = leaves();
        Optimizer one(spec, stayed), two(spec, before), three(spec, after);
        run(one, stayed, 0, 12);

        run(two, before, 0, moved_after);
        run(three, after, 0, 2);  // what it had is forgotten
        // As text, like in a summary or a manifest.
        three.prepare_state(nlohmann::json::parse(two.counters().dump()));
        const auto source = two.state_tensors(), target = three.state_tensors();
        REQUIRE(source.size() == target.size());
        for (size_t i = 0; i < source.size(); ++i) {
          CHECK(source[i].name == target[i].name);
          target[i].tensor.copy_(source[i].tensor);
        }
        const at::NoGradGuard no_grad;
        for (size_t i = 0; i < before.size(); ++i) after[i].tensor.copy_(before[i].tensor);
        run(three, after, moved_after, 12);
        for (size_t i = 0; i < stayed.size(); ++i) {
          CHECK(at::equal(stayed[i].tensor, after[i].tensor));
        }
        CHECK(at::equal(stayed[2].tensor, leaves()[2].tensor));
      }
    }
  }
}

TEST_CASE("groups by name") {
  OptimizerSpec spec = spec_of(Kind::sgd, true);
  const auto parameters = leaves();
  const Optimizer optimizer(spec, parameters);
  CHECK(optimizer.group_count() == 2);
  CHECK(optimizer.group_of(0) == optimizer.group_of(2));
  CHECK(optimizer.group_of(0) != optimizer.group_of(1));
  CHECK(optimizer.base_lr(optimizer.group_of(0)) == 0.05);
  CHECK(optimizer.base_lr(optimizer.group_of(1)) == 0.01);
  spec.groups[0].match = "bias";
  CHECK_ERROR(Optimizer(spec, parameters), "no parameter is named \"bias\"");
  CHECK_ERROR(Optimizer(spec, {}), "no parameter");
}

TEST_CASE("a preconditioner is Adam's second moment") {
  for (const Kind kind : {Kind::adam, Kind::adamw}) {
    const auto parameters = leaves();
    Optimizer optimizer(spec_of(kind, false), parameters);
    CHECK_FALSE(optimizer.preconditioner(0).exp_avg_sq.defined());
    run(optimizer, parameters, 0, 3);
    const Preconditioner by = optimizer.preconditioner(0);
    CHECK(by.steps == 3);
    CHECK(by.beta2 == 0.999);
    CHECK(by.eps == 1e-8);
    CHECK(at::count_nonzero(by.exp_avg_sq).item<int64_t>() > 0);
    CHECK_FALSE(optimizer.preconditioner(2).exp_avg_sq.defined());  // never had a gradient
  }
  const auto parameters = leaves();
  Optimizer sgd(spec_of(Kind::sgd, true), parameters);
  run(sgd, parameters, 0, 3);
  CHECK_FALSE(sgd.preconditioner(0).exp_avg_sq.defined());
}

TEST_CASE("the state of another program is refused") {
  const auto parameters = leaves();
  Optimizer optimizer(spec_of(Kind::adam, false), parameters);
  CHECK_ERROR(optimizer.prepare_state(nlohmann::json::array({nullptr})), "another program");
  CHECK_ERROR(optimizer.prepare_state(nlohmann::json::object()), "another program");
  // Settings that were changed between two starts.
  const auto state_of = [&](Kind kind, bool all) {
    const auto others = leaves();
    Optimizer other(spec_of(kind, all), others);
    run(other, others, 0, 2);
    return other.counters();
  };
  CHECK_ERROR(optimizer.prepare_state(state_of(Kind::sgd, true)), "does not match this optimizer");
  CHECK_ERROR(optimizer.prepare_state(state_of(Kind::adam, true)), "max_exp_avg_sq");
  optimizer.prepare_state(state_of(Kind::adamw, false));
  Optimizer centered(spec_of(Kind::rmsprop, true), parameters);
  CHECK_ERROR(centered.prepare_state(state_of(Kind::rmsprop, false)),
              "keeps [\"square_avg\",\"momentum_buffer");
  for (const bool momentum : {false, true}) {
    const auto others = leaves();
    Optimizer sgd(spec_of(Kind::sgd, !momentum), others);
    sgd.prepare_state(state_of(Kind::sgd, momentum));
    run(sgd, others, 2, 4);
  }
}
