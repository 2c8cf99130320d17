#include "runtime/session/stop_rules.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {

void check_best_metric(const TrainingSpec& spec, const std::set<std::string>& metrics) {
  if (!spec.best || metrics.contains(spec.best->metric)) return;
  std::string known;
  for (const std::string& name : metrics) known += (known.empty() ? "" : ", ") + name;
  fail("best.metric: is '{}', which validation_step does not return; it returns {}",
       spec.best->metric, known.empty() ? "nothing" : known);
}

EndedBy reached_limit(const Progress& progress, const TrainingSpec& spec, double epochs) {
  if (epochs + kRounding >= spec.epochs) return EndedBy::epochs;
  if (spec.max_steps > 0 && progress.step >= spec.max_steps) return EndedBy::max_steps;
  if (spec.max_time_s > 0 && progress.trained_s >= spec.max_time_s) return EndedBy::max_time;
  if (spec.early_stopping && progress.validations_since >= spec.early_stopping->patience) {
    return EndedBy::early_stopping;
  }
  return EndedBy::nothing;
}

void follow_settings(Progress& progress, const TrainingSpec& spec, double epochs,
                     const std::string& mode_before) {
  // At a multiple, as if it had been so from the start.
  const double every = spec.validate_every_epochs;
  const double next = every * (std::floor((epochs + kRounding) / every) + 1);
  progress.next_validation = std::min(progress.next_validation, next);
  if (spec.best) {
    const std::string mode = spec.best->mode == BestSpec::Mode::max ? "max" : "min";
    const bool same_mode = mode_before.empty() || mode_before == mode;
    if (progress.best.empty()) return;
    if (same_mode && progress.best.contains(spec.best->metric)) return;
  }
  progress.best.clear();
  progress.best_step = 0;
  progress.to_improve = 0;
  progress.validations_since = 0;
}

double expected_iterations(const Progress& progress, const TrainingSpec& spec, double of_epochs) {
  double least = of_epochs;
  const auto limit = [&](double most, double done) {
    if (most > 0 && done > 0) least = std::min(least, progress.iterations * most / done);
  };
  limit(static_cast<double>(spec.max_steps), static_cast<double>(progress.step));
  limit(spec.max_time_s, progress.trained_s);
  return std::max(least, progress.iterations);
}

void judge_validation(Progress& progress, const TrainingSpec& spec) {
  if (!spec.best) return;
  std::set<std::string> metrics;
  for (const auto& [name, value] : progress.validation) metrics.insert(name);
  check_best_metric(spec, metrics);
  const double value = progress.validation.at(spec.best->metric);
  const double sign = spec.best->mode == BestSpec::Mode::max ? -1 : 1;
  const auto best = progress.best.find(spec.best->metric);
  const bool first = best == progress.best.end();
  if (first && !progress.best.empty()) progress.validations_since = 0;  // of another metric
  const auto better = [&](double than, double by) {
    return std::isfinite(value) && (first || sign * (than - value) > by);
  };
  const double min_delta = spec.early_stopping ? spec.early_stopping->min_delta : 0;
  const bool improved = better(progress.to_improve, min_delta);
  if (better(first ? 0 : best->second, 0)) {
    progress.best = {{spec.best->metric, value}};
    progress.best_step = progress.step;
  }
  if (improved) progress.to_improve = value;
  progress.validations_since = improved ? 0 : progress.validations_since + 1;
  if (spec.early_stopping && !progress.finished &&
      progress.validations_since >= spec.early_stopping->patience) {
    progress.finished = true;
    progress.ended_by = EndedBy::early_stopping;
  }
}

std::string name_of(EndedBy ended_by) {
  switch (ended_by) {
    case EndedBy::nothing:
      return "";
    case EndedBy::epochs:
      return "epochs";
    case EndedBy::max_steps:
      return "max_steps";
    case EndedBy::max_time:
      return "max_time";
    case EndedBy::early_stopping:
      return "early_stopping";
    case EndedBy::program:
      return "program";
  }
  return "";
}

std::string describe_end(const Progress& progress, const TrainingSpec& spec) {
  switch (progress.ended_by) {
    case EndedBy::nothing:
    case EndedBy::epochs:
      return "";
    case EndedBy::max_steps:
      return fmt::format("max_steps: {} steps are done", progress.step);
    case EndedBy::max_time:
      return fmt::format("max_time: it has trained for {}", format_duration(progress.trained_s));
    case EndedBy::early_stopping:
      return fmt::format("early_stopping: {} did not improve in {} validation{}",
                         spec.best ? spec.best->metric : "the metric", progress.validations_since,
                         progress.validations_since == 1 ? "" : "s");
    case EndedBy::program:
      return "program: it called finish()";
  }
  return "";
}

}  // namespace adaptdl
