// Optimizer: the numbers of Python's torch.optim, and what it was when its state is moved to
// another process.

#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/optim/fused.h"
#include "runtime/optim/update_rule.h"
#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/optim/torch_reference.h"

using namespace adaptdl;

namespace {

using Kind = OptimizerSpec::Kind;

const Kind kKinds[] = {Kind::sgd,     Kind::adam,     Kind::adamw, Kind::nadam, Kind::rmsprop,
                       Kind::adagrad, Kind::adadelta, Kind::lamb,  Kind::lion};

bool is_adam(Kind kind) {
  return kind == Kind::adam || kind == Kind::adamw;
}

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
  spec.defaults = default_settings(kind);
  spec.defaults.lr = 0.05;
  spec.defaults.weight_decay = 0.01;
  if (kind == Kind::sgd || kind == Kind::rmsprop) spec.defaults.momentum = all ? 0.9 : 0.0;
  if (kind == Kind::sgd && all) spec.defaults.nesterov = true;
  spec.defaults.amsgrad = all && is_adam(kind);
  spec.defaults.decoupled_weight_decay = all && kind == Kind::nadam;
  if (kind == Kind::adagrad && all) spec.defaults.initial_accumulator = 0.5;
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

// In float64 they differ by rounding only.
TEST_CASE("optimizers are those of torch.optim") {
  const auto reference = test::torch_reference();
  const int steps = reference.at("steps");
  for (const auto& one : reference.at("optimizers")) {
    CAPTURE(one.at("optimizer").dump());
    const TrainingSpec spec = test::spec_with("optimizer", one.at("optimizer"));
    std::vector<NamedTensor> parameters;
    for (const char* name : {"layer.weight", "layer.bias", "sometimes", "never"}) {
      const auto shape = reference.at("shapes").at(name).get<std::vector<int64_t>>();
      const int64_t count = c10::multiply_integers(shape);
      parameters.push_back(
          {name, at::linspace(-1, 1, count, at::kDouble).view(shape).set_requires_grad(true)});
    }
    Optimizer optimizer(spec.optimizer, parameters);
    for (int step = 0; step < steps; ++step) {
      for (size_t i = 0; i + 1 < parameters.size(); ++i) {
        const at::Tensor p = parameters[i].tensor;
        p.mutable_grad().reset();
        if (parameters[i].name == "sometimes" && step % 3 == 1) continue;
        const at::Tensor numbers =
            at::arange(p.numel(), at::kDouble) * static_cast<double>(i + 1) + step;
        p.mutable_grad() = at::sin(numbers).view(p.sizes()) + 0.3 * p.detach();
      }
      std::optional<double> momentum;
      if (one.contains("momenta")) momentum = one.at("momenta")[step];
      optimizer.step(std::vector<double>(static_cast<size_t>(optimizer.group_count()),
                                         reference.at("lr_factors")[step]),
                     momentum);
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
  for (const Kind kind : kKinds) {
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
  CHECK(optimizer.entry_of(optimizer.group_of(0)) == 0);
  CHECK(optimizer.entry_of(optimizer.group_of(1)) == 1);
  CHECK(optimizer.base_lr(optimizer.group_of(0)) == 0.05);
  CHECK(optimizer.base_lr(optimizer.group_of(1)) == 0.01);
  spec.groups.push_back({"*", spec.defaults});
  const Optimizer in_some(spec, parameters);
  CHECK(in_some.group_count() == 2);
  CHECK(in_some.entry_of(in_some.group_of(1)) == 1);
  CHECK(in_some.entry_of(in_some.group_of(0)) == 2);
  spec.groups[0].match = "bias";
  CHECK_ERROR(Optimizer(spec, parameters), "no parameter is named \"bias\"");
  CHECK_ERROR(Optimizer(spec, {}), "no parameter");
}

// Memory in one piece is updated by kernels, whatever its order; everything else by LibTorch.
TEST_CASE("layout, type and threads do not change what an optimizer computes") {
  constexpr int64_t kRows = 300, kColumns = 257;  // several blocks
  const int threads = at::get_num_threads();
  const auto trained = [&](Kind kind, bool all, at::Tensor parameter) {
    parameter.set_requires_grad(true);
    Optimizer optimizer(spec_of(kind, all), {{"layer.bias", parameter}});
    for (int step = 0; step < 4; ++step) {
      const auto numbers = at::arange(kRows * kColumns, at::kDouble).view({kRows, kColumns});
      const auto gradient = at::sin(numbers + step).add(parameter.detach());
      parameter.mutable_grad() =
          at::empty_like(parameter).detach().copy_(gradient.to(parameter.scalar_type()));
      if (step == 2) parameter.mutable_grad() = gradient.to(parameter.scalar_type());
      optimizer.step({0.5});
    }
    CHECK(parameter._version() >= 4);  // autograd notices that it changed
    return parameter.detach().contiguous().to(at::kDouble);
  };
  for (const Kind kind : kKinds) {
    for (const bool all : {false, true}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(all);
      const at::Tensor start =
          at::linspace(-1, 1, kRows * kColumns, at::kDouble).view({kRows, kColumns});
      at::set_num_threads(1);
      const at::Tensor plain = trained(kind, all, start.clone());
      const at::Tensor turned =
          trained(kind, all, start.t().clone(at::MemoryFormat::Contiguous).t());
      at::Tensor gaps = at::empty({kRows, 2 * kColumns}, at::kDouble).slice(1, 0, kColumns);
      const at::Tensor listed = trained(kind, all, gaps.copy_(start));
      // Clipped by norms that are added up in another order; centered rmsprop amplifies that.
      CHECK(at::allclose(turned, plain, 1e-9, 1e-9));
      CHECK(at::allclose(listed, plain, 1e-9, 1e-9));
      const at::Tensor single = trained(kind, all, start.to(at::kFloat));
      // Where the sign of something close to zero decides, a few elements go the other way.
      CHECK(((single - plain).abs() > 1e-4).sum().item<int64_t>() < 20);
      const at::Tensor half = trained(kind, all, start.to(at::kBFloat16));
      CHECK((half - plain).abs().mean().item<double>() < 0.02);
      at::set_num_threads(3);
      CHECK(at::equal(trained(kind, all, start.to(at::kFloat)), single));
      if (all) continue;  // LibTorch's norm for clipping, of float64, depends on the threads
      CHECK(at::equal(trained(kind, all, start.clone()), plain));
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("fused updates are those of the rules") {
  const at::NoGradGuard no_grad;
  for (const Kind kind : {Kind::sgd, Kind::adam, Kind::adamw}) {
    for (const bool all : {false, true}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(all);
      OptimizerSettings settings = spec_of(kind, all).defaults;
      if (settings.eps == 0) settings.eps = 1e-8;
      const auto rule = make_update_rule(kind, settings);
      Update plain, fused;
      for (Update* each : {&plain, &fused}) {
        each->lr = 0.05;
        each->parameters = {at::linspace(-1, 1, 60, at::kDouble).view({4, 15}),
                            at::linspace(2, 3, 7, at::kDouble)};
        for (size_t k = 0; k < rule->state_names().size(); ++k) {
          each->state.push_back({at::zeros({4, 15}, at::kDouble), at::zeros({7}, at::kDouble)});
        }
      }
      for (int64_t step = 1; step <= 5; ++step) {
        for (Update* each : {&plain, &fused}) {
          each->step = step;
          each->first = step == 1;
          each->momentum = all && step > 3 ? std::optional(0.7) : std::nullopt;
          // The first one's is laid out otherwise.
          each->gradients = {at::sin(at::arange(60, at::kDouble) + step).view({15, 4}).t(),
                             at::sin(at::arange(7, at::kDouble) * step) + each->parameters[1]};
        }
        REQUIRE(alike(fused));
        rule->update(plain);
        if (kind == Kind::sgd) {
          fused_sgd(fused, settings, fused.momentum.value_or(settings.momentum));
        } else {
          fused_adam(fused, settings, fused.momentum.value_or(settings.beta1), kind == Kind::adamw);
        }
        CHECK(fused.parameters[0]._version() >= step);
        for (size_t i = 0; i < 2; ++i) {
          CHECK(at::allclose(fused.parameters[i], plain.parameters[i], 1e-12, 1e-12));
          for (size_t k = 0; k < plain.state.size(); ++k) {
            CHECK(at::allclose(fused.state[k][i], plain.state[k][i], 1e-12, 1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("a fused update is for tensors of one type, dense and laid out alike") {
  const auto half = [] { return at::zeros({4, 6}, at::kHalf); };
  Update update;
  update.parameters = {half(), half()};
  update.gradients = {half(), half()};
  update.state = {{half(), half()}};
  CHECK(alike(update));
  CHECK_FALSE(can_fuse(update));  // on a CPU
  const auto with = [&](auto&& change) {
    Update changed = update;
    change(changed);
    return alike(changed);
  };
  CHECK_FALSE(with([](Update& u) { u.parameters[1] = u.parameters[1].to(at::kBFloat16); }));
  CHECK_FALSE(with([](Update& u) { u.gradients[1] = u.gradients[1].to(at::kFloat); }));
  CHECK_FALSE(with([](Update& u) { u.state[0][1] = u.state[0][1].to(at::kFloat); }));
  CHECK_FALSE(with([](Update& u) { u.state[0][0] = at::zeros({6, 4}, at::kHalf).t(); }));
  CHECK_FALSE(with([](Update& u) {
    u.parameters[0] = at::zeros({4, 12}, at::kHalf).slice(1, 0, 6);
  }));
  CHECK(with([](Update& u) { u.gradients[0] = at::zeros({6, 4}, at::kHalf).t(); }));
}

TEST_CASE("a parameter without a gradient keeps its value and its state") {
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto parameters = leaves();
    Optimizer optimizer(spec_of(kind, true), parameters);
    run(optimizer, parameters, 0, 2);
    const auto before = parameters[0].tensor.detach().clone();
    std::vector<at::Tensor> state;
    for (const NamedTensor& named : optimizer.state_tensors())
      state.push_back(named.tensor.clone());
    const auto counters = optimizer.counters();
    for (const NamedTensor& parameter : parameters) parameter.tensor.mutable_grad().reset();
    optimizer.step({1.0, 1.0});
    CHECK(at::equal(parameters[0].tensor.detach(), before));
    CHECK(optimizer.counters() == counters);
    const auto after = optimizer.state_tensors();
    REQUIRE(after.size() == state.size());
    for (size_t i = 0; i < state.size(); ++i) CHECK(at::equal(after[i].tensor, state[i]));
  }
}

TEST_CASE("reserved memory is what a state moves into") {
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto parameters = leaves();
    Optimizer optimizer(spec_of(kind, true), parameters), reserved(spec_of(kind, true), parameters);
    reserved.reserve_state();
    run(optimizer, parameters, 0, 1);
    reserved.prepare_state(optimizer.counters());
    CHECK(reserved.state_tensors().size() == optimizer.state_tensors().size());
    for (const NamedTensor& named : reserved.state_tensors()) {
      CHECK(at::count_nonzero(named.tensor).item<int64_t>() == 0);
    }
  }
}

TEST_CASE("a preconditioner is Adam's second moment") {
  for (const Kind kind : {Kind::adam, Kind::adamw, Kind::nadam, Kind::lamb}) {
    const auto parameters = leaves();
    Optimizer optimizer(spec_of(kind, false), parameters);
    CHECK_FALSE(optimizer.preconditioner(0).exp_avg_sq.defined());
    run(optimizer, parameters, 0, 3);
    const Preconditioner by = optimizer.preconditioner(0);
    CHECK(by.steps == 3);
    CHECK(by.beta2 == 0.999);
    CHECK(by.eps == (kind == Kind::lamb ? 1e-6 : 1e-8));
    CHECK(at::count_nonzero(by.exp_avg_sq).item<int64_t>() > 0);
    CHECK_FALSE(optimizer.preconditioner(2).exp_avg_sq.defined());  // never had a gradient
  }
  for (const Kind kind : {Kind::sgd, Kind::rmsprop, Kind::adagrad, Kind::adadelta, Kind::lion}) {
    const auto parameters = leaves();
    Optimizer optimizer(spec_of(kind, true), parameters);
    run(optimizer, parameters, 0, 3);
    CHECK_FALSE(optimizer.preconditioner(0).exp_avg_sq.defined());
  }
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
  Optimizer plain(spec_of(Kind::sgd, false), parameters);
  CHECK_ERROR(plain.prepare_state(state_of(Kind::lion, false)), "[\"exp_avg\"] does not match");
  // Of a version that counted no steps of SGD.
  Optimizer sgd_of_before(spec_of(Kind::sgd, true), parameters);
  const nlohmann::json old = {{"step", 0}, {"tensors", {"momentum_buffer"}}};
  sgd_of_before.prepare_state({old, old, nullptr});
  CHECK(sgd_of_before.state_tensors().size() == 2);
  for (const NamedTensor& buffer : sgd_of_before.state_tensors()) buffer.tensor.fill_(1e6);
  run(sgd_of_before, parameters, 0, 1);
  CHECK(parameters[0].tensor.abs().min().item<double>() > 1e3);  // the momentum was not forgotten
  for (const bool momentum : {false, true}) {
    const auto others = leaves();
    Optimizer sgd(spec_of(Kind::sgd, !momentum), others);
    sgd.prepare_state(state_of(Kind::sgd, momentum));
    run(sgd, others, 2, 4);
  }
}

namespace {

// Adds a quarter of the gradient to each of four states, and their sum to the parameter.
class FourStates : public UpdateRule {
 public:
  std::vector<std::string> state_names() const override { return {"a", "b", "c", "d"}; }
  double initial_state() const override { return 1; }
  bool passes_zeros_over() const override { return false; }
  ScalingRule scaling_rule() const override { return ScalingRule::linear; }
  void update(const Update& update) const override {
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      for (const auto& state : update.state) {
        state[i].add_(update.gradients[i], 0.25);
        update.parameters[i].add_(state[i], update.lr);
      }
    }
  }
};

// Plain descent, also of single rows.
class Descent : public UpdateRule {
 public:
  bool passes_zeros_over() const override { return true; }
  void update(const Update& update) const override {
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      update.parameters[i].sub_(update.gradients[i], update.lr);
    }
  }
};

OptimizerSpec of_the_program() {
  OptimizerSpec spec;
  spec.kind = Kind::program;
  spec.defaults.lr = 0.5;
  spec.defaults.weight_decay = 0.1;
  spec.groups.push_back({"*.bias", spec.defaults});
  spec.groups[0].settings.lr = 0.25;
  return spec;
}

}  // namespace

TEST_CASE("a program's own rules: one for each group, with any number of states") {
  std::vector<OptimizerGroup> groups;
  const auto make = [&groups](const OptimizerGroup& group) -> std::unique_ptr<UpdateRule> {
    groups.push_back(group);
    if (group.match.empty()) return std::make_unique<FourStates>();
    return std::make_unique<Descent>();
  };
  const auto parameters = leaves();
  Optimizer optimizer(of_the_program(), parameters, make);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].match.empty());
  CHECK((groups[0].parameters == std::vector<std::string>{"layer.weight", "never"}));
  CHECK(groups[0].lr == 0.5);
  CHECK(groups[0].weight_decay == 0.1);
  CHECK(groups[1].match == "*.bias");
  CHECK(groups[1].parameters == std::vector<std::string>{"layer.bias"});
  CHECK(groups[1].lr == 0.25);
  CHECK(optimizer.scaling_rule(0) == TrainingSpec::ScalingRule::linear);
  CHECK(optimizer.scaling_rule(1) == TrainingSpec::ScalingRule::adascale);
  CHECK_FALSE(optimizer.takes_rows(0));
  CHECK(optimizer.takes_rows(1));

  const at::Tensor weight = parameters[0].tensor.detach().clone();
  set_gradients(parameters, 3);
  const at::Tensor gradient = parameters[0].tensor.grad().clone();
  optimizer.step({1, 1});
  CHECK(at::allclose(parameters[0].tensor.detach(), weight + 0.5 * 4 * (1 + 0.25 * gradient)));
  CHECK(optimizer.state_tensors().size() == 4);

  // In another process it goes on from what the first one wrote.
  const auto others = leaves();
  Optimizer other(of_the_program(), others, make);
  other.prepare_state(optimizer.counters());
  const auto from = optimizer.state_tensors(), to = other.state_tensors();
  REQUIRE(to.size() == from.size());
  for (size_t i = 0; i < to.size(); ++i) {
    CHECK(to[i].name == from[i].name);
    to[i].tensor.copy_(from[i].tensor);
  }
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].tensor.detach().copy_(parameters[i].tensor);
  }
  run(optimizer, parameters, 4, 7);
  run(other, others, 4, 7);
  for (size_t i = 0; i < others.size(); ++i) {
    CHECK(at::equal(others[i].tensor, parameters[i].tensor));
  }
}

namespace {

// Takes the state of any rule with one state, and notes what its first update found.
class Renamed : public UpdateRule {
 public:
  struct Found {
    bool first = false, zeros = false;
    int64_t step = 0;
  };
  Renamed(std::string name, Found* found) : name_(std::move(name)), found_(found) {}
  std::vector<std::string> state_names() const override { return {name_}; }
  bool accepts(const std::vector<std::string>& saved) const override { return saved.size() == 1; }
  void update(const Update& update) const override {
    *found_ = {update.first, at::equal(update.state[0][0], at::zeros({2, 3})), update.step};
    for (const at::Tensor& state : update.state[0]) state.add_(1);
  }

 private:
  std::string name_;
  Found* found_;
};

}  // namespace

TEST_CASE("a saved state with other names is dropped, also where there are as many") {
  OptimizerSpec spec;
  spec.kind = Kind::program;
  Renamed::Found found;
  const auto rule = [&found](const char* name) {
    return
        [&found, name](const OptimizerGroup&) { return std::make_unique<Renamed>(name, &found); };
  };
  const auto parameters = leaves();
  Optimizer optimizer(spec, parameters, rule("m"));
  run(optimizer, parameters, 0, 2);
  CHECK_FALSE(found.first);
  for (const char* name : {"m", "square"}) {
    const bool same = name == std::string("m");
    Optimizer next(spec, parameters, rule(name));
    next.prepare_state(optimizer.counters());
    for (const NamedTensor& state : next.state_tensors()) state.tensor.fill_(2);
    run(next, parameters, 2, 3);
    CHECK(found.first == !same);
    CHECK(found.zeros == !same);
    CHECK(found.step == (same ? 3 : 1));
    CHECK(next.state_tensors().front().name == std::string("layer.weight/") + name);
  }
}

TEST_CASE("settings that want the program's optimizer need a program that has one") {
  CHECK_ERROR(Optimizer(of_the_program(), leaves()), "brings no optimizer");
  const auto none = [](const OptimizerGroup&) { return std::unique_ptr<UpdateRule>(); };
  CHECK_ERROR(Optimizer(of_the_program(), leaves(), none), "brings no optimizer");
}

TEST_CASE("learning rates follow the batch as the settings say that they do") {
  for (const Kind kind : kKinds) {
    TrainingSpec spec;
    spec.optimizer.kind = kind;
    const Optimizer optimizer(spec.optimizer, leaves());
    const auto lines = describe(spec);
    const auto rule = std::find_if(lines.begin(), lines.end(),
                                   [](const SettingLine& line) { return line.key == "rule"; });
    REQUIRE(rule != lines.end());
    const bool plain = optimizer.scaling_rule(0) == TrainingSpec::ScalingRule::adascale;
    CHECK(rule->value == (plain ? "adascale" : "adamscale"));
    CHECK(plain == (kind == Kind::sgd || kind == Kind::adagrad));
  }
}
