// A list of training runs of y = x w + b (w 3x2 row-major, b 2; loss = mean squared error over
// batch and outputs), each with the state after every optimizer step. Gradients come from autograd,
// and updates from LibTorch's optimizers; what lies between is the code that training uses.

#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "core/formats/json.h"
#include "runtime/gns/kernels.h"
#include "runtime/gns/scaling_rule.h"
#include "runtime/gns/statistics.h"
#include "tests/vectors/kinds.h"
#include "tests/vectors/report.h"

namespace adaptdl::vectors {
namespace {

constexpr double kTolerance = 1e-4;
constexpr int64_t kInputs = 3, kOutputs = 2;

struct Run {
  bool adam = false;
  double lr = 0, momentum = 0, scale = 1;
  int groups = 1, passes = 1, replicas = 1;
  int64_t atomic = 1;
  std::vector<float> w, b, x, y;
  std::vector<Json> trace;
};

std::vector<float> floats(const Json& c, const char* key, const std::string& where) {
  const auto wide = json_get<std::vector<double>>(c, key, where);
  return {wide.begin(), wide.end()};
}

Run read_run(const Json& c, const std::string& where) {
  Run run;
  const auto optimizer = json_get<std::string>(c, "optimizer", where);
  run.adam = optimizer == "adam";
  if (!run.adam && optimizer != "sgd") fail("{}: optimizer must be sgd or adam", where);
  run.lr = json_get<double>(c, "lr", where);
  run.momentum = json_get_or<double>(c, "momentum", where, 0.0);
  run.scale = json_get<double>(c, "scale", where);
  run.groups = json_get<int>(c, "param_groups", where);
  run.passes = json_get<int>(c, "accumulation_steps", where) + 1;
  run.replicas = json_get<int>(c, "replicas", where);
  run.atomic = json_get<int64_t>(c, "atomic_bsz", where);
  run.w = floats(c, "w0", where);
  run.b = floats(c, "b0", where);
  run.x = floats(c, "x", where);
  run.y = floats(c, "y", where);
  run.trace = json_get<std::vector<Json>>(c, "trace", where);
  const auto good = [&](int64_t number) { return number >= 1 && number <= 4096; };
  if (!good(run.passes) || !good(run.replicas) || !good(run.atomic) || run.groups < 1 ||
      run.groups > 2 || !(run.scale > 0)) {
    fail("{}: a size is out of range", where);
  }
  const size_t samples = run.trace.size() * run.passes * run.replicas * run.atomic;
  if (run.w.size() != kInputs * kOutputs || run.b.size() != kOutputs ||
      run.x.size() != samples * kInputs || run.y.size() != samples * kOutputs) {
    fail("{}: w0, b0, x or y has not the size that the other fields say", where);
  }
  return run;
}

at::Tensor tensor(std::vector<float>& values, at::IntArrayRef shape) {
  return at::from_blob(values.data(), shape, at::kFloat).clone();
}

// One parameter's gradient on its way through a step.
struct Slot {
  at::Tensor parameter;
  size_t group = 0;
  std::vector<float> sum, previous;
};

class Trainer {
 public:
  explicit Trainer(Run& run)
      : run_(run), statistics_(run.groups, TrainingSpec::Averaging::adaptdl) {
    slots_[0].parameter = tensor(run.w, {kInputs, kOutputs}).requires_grad_();
    slots_[1].parameter = tensor(run.b, {kOutputs}).requires_grad_();
    slots_[1].group = static_cast<size_t>(run.groups - 1);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (run.groups == 1) {
      groups.emplace_back(std::vector<at::Tensor>{slots_[0].parameter, slots_[1].parameter});
    } else {
      for (auto& slot : slots_) groups.emplace_back(std::vector<at::Tensor>{slot.parameter});
    }
    if (run.adam) {
      optimizer_ = std::make_unique<torch::optim::Adam>(groups, torch::optim::AdamOptions(run.lr));
    } else {
      optimizer_ = std::make_unique<torch::optim::SGD>(
          groups, torch::optim::SGDOptions(run.lr).momentum(run.momentum));
    }
  }

  void step(int64_t number) {
    const int count = run_.passes * run_.replicas;
    std::vector<gns::GroupSample> samples(static_cast<size_t>(run_.groups));
    for (int i = 0; i < count; ++i) {
      backward(number * count + i);
      for (auto& slot : slots_) {
        at::Tensor& gradient = slot.parameter.mutable_grad();
        const float* from = gradient.const_data_ptr<float>();
        slot.sum.resize(static_cast<size_t>(gradient.numel()));
        const auto move = i == 0 ? gns::copy_and_norm : gns::accumulate_and_norm;
        samples[slot.group].local +=
            move(slot.sum.data(), from, slot.sum.size(), divisor(slot)) / count;
      }
    }
    for (auto& slot : slots_) {
      for (float& value : slot.sum) value /= static_cast<float>(count);
      auto& sample = samples[slot.group];
      if (count == 1 && !slot.previous.empty()) {
        const auto sums =
            gns::dots(slot.sum.data(), slot.previous.data(), slot.sum.size(), divisor(slot));
        sample.total += sums.aa;
        sample.previous += sums.bb;
        sample.product += sums.ab;
      } else {
        sample.total += gns::sum_squares(slot.sum.data(), slot.sum.size(), divisor(slot));
      }
      slot.previous = slot.sum;
      slot.parameter.mutable_grad() =
          at::from_blob(slot.sum.data(), slot.parameter.sizes(), at::kFloat);
    }
    statistics_.update(count, run_.scale, samples);
    const auto rule =
        run_.adam ? TrainingSpec::ScalingRule::adamscale : TrainingSpec::ScalingRule::adascale;
    lr_factors_.clear();
    for (int g = 0; g < run_.groups; ++g) {
      gns::RuleInput input;
      input.scale = run_.scale;
      input.gain = statistics_.gain(run_.scale, g);
      input.progress = progress_;
      lr_factors_.push_back(gns::lr_factor(rule, input));
      auto& options = optimizer_->param_groups()[static_cast<size_t>(g)].options();
      options.set_lr(run_.lr * lr_factors_.back());
    }
    optimizer_->step();
    progress_ += statistics_.gain(run_.scale);
    for (auto& slot : slots_) slot.parameter.mutable_grad().reset();
  }

  void compare(const Json& want, const std::string& where, Report& report) const {
    const auto one = [&](const char* key, double got) {
      report.relative(where + " " + key, got, json_get<double>(want, key, where), kTolerance);
    };
    const auto all = [&](const char* key, const std::vector<double>& got, double least) {
      const auto values = json_get<std::vector<double>>(want, key, where);
      report.require(where, values.size() == got.size(), fmt::format("{}: another length", key));
      for (size_t i = 0; i < std::min(values.size(), got.size()); ++i) {
        report.relative(fmt::format("{} {}[{}]", where, key, i), got[i], values[i], kTolerance,
                        least);
      }
    };
    std::vector<double> sqr, var;
    for (int g = 0; g < run_.groups; ++g) {
      sqr.push_back(statistics_.raw(g).sqr);
      var.push_back(statistics_.raw(g).var);
    }
    one("sqr_avg", statistics_.sqr());
    one("var_avg", statistics_.var());
    // sqr and parameters are differences: relative to what they are differences of.
    all("raw_sqr", sqr, statistics_.var() / run_.scale);
    all("raw_var", var, 1e-6);
    one("gain", statistics_.gain(run_.scale));
    all("lr_factors", lr_factors_, 1e-6);
    one("progress", progress_);
    all("weight", values(slots_[0].parameter), run_.lr);
    all("bias", values(slots_[1].parameter), run_.lr);
  }

 private:
  // The gradient of one atomic batch.
  void backward(int64_t batch) {
    for (auto& slot : slots_) slot.parameter.mutable_grad().reset();
    const auto x = at::from_blob(run_.x.data() + batch * run_.atomic * kInputs,
                                 {run_.atomic, kInputs}, at::kFloat);
    const auto y = at::from_blob(run_.y.data() + batch * run_.atomic * kOutputs,
                                 {run_.atomic, kOutputs}, at::kFloat);
    const auto predicted = x.mm(slots_[0].parameter) + slots_[1].parameter;
    const auto loss = (predicted - y).square().mean();
    torch::autograd::backward({loss}, {});
  }

  gns::Divisor divisor(const Slot& slot) const {
    if (!run_.adam) return {};
    const auto found = optimizer_->state().find(slot.parameter.unsafeGetTensorImpl());
    if (found == optimizer_->state().end()) return {};
    const auto& state = static_cast<const torch::optim::AdamParamState&>(*found->second);
    const torch::optim::AdamOptions defaults;
    return gns::Divisor::adam(state.exp_avg_sq().const_data_ptr<float>(),
                              std::get<1>(defaults.betas()), state.step(), defaults.eps());
  }

  static std::vector<double> values(const at::Tensor& tensor) {
    const float* data = tensor.const_data_ptr<float>();
    return {data, data + tensor.numel()};
  }

  Run& run_;
  gns::GradientStatistics statistics_;
  Slot slots_[2];
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<double> lr_factors_;
  double progress_ = 0;
};

}  // namespace

bool check_gradient_statistics(const Json& file) {
  if (!file.is_array()) fail("the file must be a list of training runs");
  Report report;
  for (size_t i = 0; i < file.size(); ++i) {
    const std::string where = fmt::format("run[{}]", i);
    Run run = read_run(file[i], where);
    Trainer trainer(run);
    report.add_case();
    for (size_t t = 0; t < run.trace.size(); ++t) {
      trainer.step(static_cast<int64_t>(t));
      trainer.compare(run.trace[t], fmt::format("{} step {}", where, t), report);
    }
  }
  report.print("gradient statistics");
  return report.passed();
}

}  // namespace adaptdl::vectors
