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

}  // namespace

Schedule::Schedule(std::vector<SchedulePart> parts, double iterations_per_epoch)
    : parts_(std::move(parts)),
      plateaus_(parts_.size()),
      iterations_per_epoch_(iterations_per_epoch) {
  ADAPTDL_CHECK(std::isfinite(iterations_per_epoch) && iterations_per_epoch > 0);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const SchedulePart& part = parts_[i];
    const bool needs_length =
        i + 1 < parts_.size() || part.kind == Kind::cosine || part.kind == Kind::warmup;
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
    case Kind::cosine:
      return part.final_factor +
             (1.0 - part.final_factor) * (1.0 + std::cos(std::numbers::pi * t / part.epochs)) / 2.0;
    case Kind::warmup:
      return part.start_factor + (1.0 - part.start_factor) * t / part.epochs;
    case Kind::plateau:
      return plateaus_[index].factor;
  }
  ADAPTDL_CHECK(!"schedule part of unknown kind");
  return 1.0;
}

void Schedule::on_validation(const std::map<std::string, double>& metrics, double progress) {
  if (parts_.empty()) return;
  double t = 0.0;
  const size_t index = locate(progress, t);
  const SchedulePart& part = parts_[index];
  if (part.kind != Kind::plateau) return;

  const std::string name = part.metric.empty() ? "loss" : part.metric;
  const auto found = metrics.find(name);
  if (found == metrics.end()) {
    std::string known;
    for (const auto& [metric, value] : metrics) known += (known.empty() ? "" : ", ") + metric;
    fail(
        "schedule.{}: the plateau watches '{}', which validation_step does not return; it returns "
        "{}; set schedule.{}.metric to one of these",
        index, name, known.empty() ? "nothing" : known, index);
  }

  Plateau& plateau = plateaus_[index];
  const double value = found->second;
  // Relative to |best|, so that it is correct for negative metrics too.
  const double margin = part.threshold * std::abs(plateau.best);
  const bool better = std::isfinite(value) &&
                      (!plateau.has_best || (part.maximize ? value > plateau.best + margin
                                                           : value < plateau.best - margin));
  if (better) {
    plateau.best = value;
    plateau.has_best = true;
    plateau.bad = 0;
  } else if (++plateau.bad > part.patience) {
    plateau.factor = std::max(plateau.factor * part.gamma, part.min_factor);
    plateau.bad = 0;
  }
}

bool Schedule::watches_validation() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const SchedulePart& part) { return part.kind == Kind::plateau; });
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
    fits = plateau.bad >= 0 && std::isfinite(plateau.factor) && plateau.factor >= 0;
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
