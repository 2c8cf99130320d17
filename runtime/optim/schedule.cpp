#include "runtime/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {
namespace {

using Kind = SchedulePart::Kind;

// Progress is a sum of many steps, so it reaches an epoch boundary only up to rounding.
constexpr double kRounding = 1e-9;

double count_of_steps(double epochs, double every) {
  return std::floor(epochs / every + kRounding);
}

// From `start` to `end` as `position` goes from 0 to 1.
double cosine(double start, double end, double position) {
  return end + (start - end) * (1.0 + std::cos(std::numbers::pi * position)) / 2.0;
}
double line(double start, double end, double position) {
  return start + (end - start) * position;
}

// The position, from 0 to below 1, in the interval that contains t; 1 where the part ends with one.
double position_since_restart(const SchedulePart& part, double t) {
  const double m = part.multiplier, first = part.every_epochs;
  double begun = 0, length = first;
  if (m > 1) {
    const double before = std::floor(std::log(t / first * (m - 1) + 1) / std::log(m) + kRounding);
    length = first * std::pow(m, before);
    begun = (length - first) / (m - 1);
  } else {
    begun = first * count_of_steps(t, first);
  }
  const double position = std::max(0.0, (t - begun) / length);
  const bool ends = part.epochs > 0 && t + kRounding >= part.epochs;
  return ends && position <= kRounding ? 1 : position;
}

// What a plateau watches.
std::string metric_of(const SchedulePart& part) {
  return part.metric.empty() ? "loss" : part.metric;
}

[[noreturn]] void refuse_metric(size_t index, const SchedulePart& part,
                                const std::set<std::string>& metrics) {
  std::string known;
  for (const std::string& name : metrics) known += (known.empty() ? "" : ", ") + name;
  fail(
      "schedule.{}: the plateau watches '{}', which validation_step does not return; it returns "
      "{}; set schedule.{}.metric to one of these",
      index, metric_of(part), known.empty() ? "nothing" : known, index);
}

// What one_cycle moves between three values.
struct Cycle {
  double low, high, last;
};

// At a number of iterations since the part began. The last value is that of the last of
// `iterations` whole steps, as in PyTorch.
double one_cycle(const SchedulePart& part, const Cycle& cycle, double at, double iterations) {
  struct Phase {
    double end, from, to;
  };
  const double rise = part.pct_start * iterations;
  std::vector<Phase> phases = {{rise - 1, cycle.low, cycle.high}};
  if (part.three_phase) phases.push_back({2 * rise - 2, cycle.high, cycle.low});
  phases.push_back({iterations - 1, phases.back().to, cycle.last});
  double begin = 0;
  size_t i = 0;
  for (; i + 1 < phases.size() && at > phases[i].end; ++i) begin = phases[i].end;
  const Phase& phase = phases[i];
  const bool some = phase.end > begin;
  const double position = some ? std::clamp((at - begin) / (phase.end - begin), 0.0, 1.0) : 1.0;
  return part.anneal_strategy == SchedulePart::Anneal::cos ? cosine(phase.from, phase.to, position)
                                                           : line(phase.from, phase.to, position);
}

}  // namespace

Schedule::Schedule(std::vector<SchedulePart> parts, double iterations_per_epoch)
    : parts_(std::move(parts)),
      plateaus_(parts_.size()),
      iterations_per_epoch_(iterations_per_epoch) {
  ADAPTDL_CHECK(std::isfinite(iterations_per_epoch) && iterations_per_epoch > 0);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const SchedulePart& part = parts_[i];
    const bool needs_length = i + 1 < parts_.size() || part.kind == Kind::linear ||
                              part.kind == Kind::polynomial || part.kind == Kind::cosine ||
                              part.kind == Kind::one_cycle || part.kind == Kind::warmup;
    ADAPTDL_CHECK(part.epochs > 0 || (part.epochs == 0 && !needs_length));
  }
}

size_t Schedule::locate(double progress, double& epochs_into) const {
  double epochs = progress / iterations_per_epoch_;
  for (size_t i = 0;; ++i) {
    const double length = parts_[i].epochs;
    const bool last = i + 1 == parts_.size();
    if (last || epochs + kRounding < length) {
      epochs_into = std::max(0.0, length > 0 ? std::min(epochs, length) : epochs);
      return i;
    }
    epochs -= length;
  }
}

double Schedule::factor(double progress) const {
  ADAPTDL_CHECK(std::isfinite(progress) && progress >= 0);
  if (parts_.empty()) return 1.0;
  double t = 0.0;
  const size_t index = locate(progress, t);
  const SchedulePart& part = parts_[index];
  switch (part.kind) {
    case Kind::constant:
      return part.factor;
    case Kind::step:
      return std::pow(part.gamma, count_of_steps(t, part.every_epochs));
    case Kind::multi_step: {
      const auto passed = std::count_if(part.milestones.begin(), part.milestones.end(),
                                        [&](double at) { return at <= t + kRounding; });
      return std::pow(part.gamma, static_cast<double>(passed));
    }
    case Kind::exponential:
      return std::pow(part.gamma, t / part.every_epochs);
    case Kind::linear:
      return line(part.start_factor, part.final_factor, t / part.epochs);
    case Kind::polynomial:
      return line(part.final_factor, 1.0, std::pow(1.0 - t / part.epochs, part.power));
    case Kind::cosine:
      return cosine(1.0, part.final_factor, t / part.epochs);
    case Kind::cosine_restarts:
      return cosine(1.0, part.final_factor, position_since_restart(part, t));
    case Kind::one_cycle:
      return one_cycle(part, {1 / part.div_factor, 1, 1 / part.div_factor / part.final_div_factor},
                       t * iterations_per_epoch_, part.epochs * iterations_per_epoch_);
    case Kind::warmup:
      return line(part.start_factor, 1.0, t / part.epochs);
    case Kind::plateau:
      return plateaus_[index].factor;
  }
  ADAPTDL_CHECK(!"schedule part of unknown kind");
  return 1.0;
}

std::optional<double> Schedule::momentum(double progress) const {
  ADAPTDL_CHECK(std::isfinite(progress) && progress >= 0);
  if (parts_.empty()) return {};
  double t = 0.0;
  const SchedulePart& part = parts_[locate(progress, t)];
  if (part.kind != Kind::one_cycle || !part.cycle_momentum) return {};
  return one_cycle(part, {part.max_momentum, part.base_momentum, part.max_momentum},
                   t * iterations_per_epoch_, part.epochs * iterations_per_epoch_);
}

void Schedule::on_validation(const std::map<std::string, double>& metrics, double progress) {
  if (parts_.empty()) return;
  double t = 0.0;
  const size_t index = locate(progress, t);
  const SchedulePart& part = parts_[index];
  if (part.kind != Kind::plateau) return;

  const auto found = metrics.find(metric_of(part));
  if (found == metrics.end()) {
    std::set<std::string> names;
    for (const auto& [name, value] : metrics) names.insert(name);
    refuse_metric(index, part, names);
  }

  Plateau& plateau = plateaus_[index];
  const double value = found->second;
  // Relative to |best|, so that it is correct for negative metrics too.
  const bool relative = part.threshold_mode == SchedulePart::ThresholdMode::rel;
  const double margin = part.threshold * (relative ? std::abs(plateau.best) : 1.0);
  const bool better = std::isfinite(value) &&
                      (!plateau.has_best || (part.maximize ? value > plateau.best + margin
                                                           : value < plateau.best - margin));
  if (better) {
    plateau.best = value;
    plateau.has_best = true;
    plateau.bad = 0;
  } else {
    ++plateau.bad;
  }
  if (plateau.cooldown > 0) {
    --plateau.cooldown;
    plateau.bad = 0;
  }
  if (plateau.bad > part.patience) {
    plateau.factor = std::max(plateau.factor * part.gamma, part.min_factor);
    plateau.cooldown = part.cooldown;
    plateau.bad = 0;
  }
}

bool Schedule::watches_validation() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const SchedulePart& part) { return part.kind == Kind::plateau; });
}

void Schedule::check_metrics(const std::set<std::string>& metrics) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool watches = parts_[i].kind == Kind::plateau;
    if (watches && !metrics.contains(metric_of(parts_[i]))) refuse_metric(i, parts_[i], metrics);
  }
}

nlohmann::json Schedule::state() const {
  nlohmann::json state = nlohmann::json::array();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].kind != Kind::plateau) {
      state.push_back(nullptr);
      continue;
    }
    const Plateau& plateau = plateaus_[i];
    state.push_back({{"best", plateau.has_best ? nlohmann::json(plateau.best) : nlohmann::json()},
                     {"bad", plateau.bad},
                     {"cooldown", plateau.cooldown},
                     {"factor", plateau.factor}});
  }
  return state;
}

void Schedule::load_state(const nlohmann::json& state) {
  std::vector<Plateau> loaded(parts_.size());
  bool fits = state.is_array() && state.size() == parts_.size();
  for (size_t i = 0; fits && i < parts_.size(); ++i) {
    const nlohmann::json& from = state[i];
    if (parts_[i].kind != Kind::plateau) {
      fits = from.is_null();
      continue;
    }
    fits = from.is_object() && from.contains("best") && from.contains("bad") &&
           from.contains("factor") && (from["best"].is_null() || from["best"].is_number()) &&
           from["bad"].is_number_integer() && from["factor"].is_number();
    if (!fits) break;
    Plateau& plateau = loaded[i];
    plateau.has_best = !from["best"].is_null();
    if (plateau.has_best) plateau.best = from["best"].get<double>();
    plateau.bad = from["bad"].get<int>();
    plateau.factor = from["factor"].get<double>();
    // Checkpoints of earlier versions have none.
    const auto cooldown = from.value("cooldown", nlohmann::json(0));
    if (!(fits = cooldown.is_number_integer())) break;
    plateau.cooldown = cooldown.get<int>();
    fits = plateau.bad >= 0 && plateau.cooldown >= 0 && std::isfinite(plateau.factor) &&
           plateau.factor >= 0;
  }
  if (!fits) {
    fail(
        "the saved state of the learning-rate schedule does not match the schedule in the settings "
        "({} parts): restore the previous schedule, or train from the beginning with --fresh",
        parts_.size());
  }
  plateaus_ = std::move(loaded);
}

}  // namespace adaptdl
