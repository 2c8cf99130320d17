// Limits, early stopping and the best validation: pure functions of Progress.

#include "runtime/session/stop_rules.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

TrainingSpec watching(BestSpec::Mode mode, int patience, double min_delta = 0) {
  TrainingSpec spec;
  spec.best = BestSpec{"m", mode};
  if (patience > 0) spec.early_stopping = EarlyStoppingSpec{patience, min_delta};
  return spec;
}

// Progress after one validation with each of the values, at the steps 10, 20, ...; up to the one
// that ends the training.
Progress after(const TrainingSpec& spec, const std::vector<double>& values,
               Progress progress = {}) {
  for (const double value : values) {
    if (progress.finished) break;
    progress.step += 10;
    progress.validation = {{"loss", 0.5}, {"m", value}};
    judge_validation(progress, spec);
  }
  return progress;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Mode = BestSpec::Mode;

}  // namespace

TEST_CASE("limits end a training when they are reached, not earlier") {
  TrainingSpec spec;
  spec.epochs = 3;
  Progress progress;
  progress.step = 1'000'000;
  progress.trained_s = 1e9;
  CHECK(reached_limit(progress, spec, 2.99) == EndedBy::nothing);
  CHECK(reached_limit(progress, spec, 3) == EndedBy::epochs);
  spec.max_steps = 1'000'001;
  spec.max_time_s = 2e9;
  CHECK(reached_limit(progress, spec, 1) == EndedBy::nothing);
  ++progress.step;
  CHECK(reached_limit(progress, spec, 1) == EndedBy::max_steps);
  CHECK(reached_limit(progress, spec, 3) == EndedBy::epochs);
  spec.max_steps = 0;
  progress.trained_s = 2e9;
  CHECK(reached_limit(progress, spec, 1) == EndedBy::max_time);
  CHECK(name_of(EndedBy::max_time) == "max_time");
  // finish() is no limit: TrainingState has it.
  progress.ended_by = EndedBy::program;
  CHECK(contains(describe_end(progress, spec), "finish()"));
  progress.trained_s = 0;
  CHECK(reached_limit(progress, spec, 1) == EndedBy::nothing);
}

TEST_CASE("the expected end is the nearest limit's, at the pace so far") {
  TrainingSpec spec;
  Progress progress;
  CHECK(expected_iterations(progress, spec, 500) == 500);
  progress.step = 20;
  progress.iterations = 60;
  progress.trained_s = 10;
  CHECK(expected_iterations(progress, spec, 500) == 500);
  spec.max_steps = 100;  // a fifth is done
  CHECK(expected_iterations(progress, spec, 500) == 300);
  spec.max_time_s = 20;  // a half
  CHECK(expected_iterations(progress, spec, 500) == 120);
  CHECK(expected_iterations(progress, spec, 80) == 80);
  progress.step = 101;  // past a limit that was lowered
  spec.max_time_s = 0;
  CHECK(expected_iterations(progress, spec, 500) == 60);
}

TEST_CASE("a raised limit lets a finished training go on") {
  TrainingSpec spec = watching(Mode::min, 2);
  const Progress stopped = after(spec, {1, 2, 3});
  CHECK(reached_limit(stopped, spec, 0.5) == EndedBy::early_stopping);
  spec.early_stopping->patience = 5;
  CHECK(reached_limit(stopped, spec, 0.5) == EndedBy::nothing);
}

TEST_CASE("a run that goes on judges by the metric and the mode of its settings") {
  const Progress stopped = after(watching(Mode::min, 2), {1, 2, 3});
  const auto ends = [&stopped](const TrainingSpec& spec, const std::string& mode_before) {
    Progress progress = stopped;
    follow_settings(progress, spec, 0.5, mode_before);
    CHECK(progress.best.empty() == (progress.validations_since == 0));
    return reached_limit(progress, spec, 0.5) == EndedBy::early_stopping;
  };
  TrainingSpec spec = watching(Mode::min, 2);
  CHECK(ends(spec, "min"));
  CHECK(ends(spec, ""));
  spec.best->mode = Mode::max;
  CHECK_FALSE(ends(spec, "min"));
  CHECK(ends(spec, "max"));
  spec.best = BestSpec{"loss", Mode::min};
  CHECK_FALSE(ends(spec, "min"));
}

TEST_CASE("a run that goes on validates as often as its settings say now") {
  TrainingSpec spec;
  Progress progress;
  progress.next_validation = 10;
  const auto next = [&](double every, double epochs) {
    spec.validate_every_epochs = every;
    follow_settings(progress, spec, epochs, "");
    return progress.next_validation;
  };
  CHECK(next(20, 3) == 10);
  CHECK(next(10, 0) == 10);
  CHECK(next(2, 3) == 4);  // a multiple, as if it had been so from the start
  CHECK(next(0.5, 3.2) == 3.5);
}

TEST_CASE("the best validation is the smallest or the largest, the first one of equals") {
  const Progress least = after(watching(Mode::min, 0), {3, 1, 2, 1});
  CHECK(least.best.at("m") == 1);
  CHECK(least.best_step == 20);
  CHECK_FALSE(least.finished);
  const Progress most = after(watching(Mode::max, 0), {-3, -1, -2});
  CHECK(most.best.at("m") == -1);
  CHECK(most.best_step == 20);
  CHECK(after(TrainingSpec(), {1, 2}).best.empty());
}

TEST_CASE("early stopping counts validations in a row without an improvement") {
  const auto stopped_at = [](const TrainingSpec& spec, const std::vector<double>& values) {
    const Progress progress = after(spec, values);
    CHECK(progress.finished == (progress.ended_by == EndedBy::early_stopping));
    return progress.finished ? progress.step : -1;
  };
  CHECK(stopped_at(watching(Mode::min, 2), {3, 2, 2, 1, 1, 1, 0}) == 60);
  CHECK(stopped_at(watching(Mode::max, 1), {1, 2, 3, 3, 4}) == 40);
  CHECK(stopped_at(watching(Mode::min, 3), {3, 4, 5}) == -1);
  // Small steps add up: each is compared with the last improvement, not with the last validation.
  CHECK(stopped_at(watching(Mode::min, 2, 1.0), {10, 9.5, 8.9, 8.5, 7.8}) == -1);
  CHECK(stopped_at(watching(Mode::min, 2, 1.0), {10, 9.5, 9.0, 1}) == 30);
}

TEST_CASE("a change below min_delta still makes a better model") {
  const Progress progress = after(watching(Mode::min, 2, 1.0), {10, 9.5, 9.2});
  CHECK(progress.best.at("m") == 9.2);
  CHECK(progress.best_step == 30);
  CHECK(progress.validations_since == 2);
}

TEST_CASE("a metric that is not finite is no improvement") {
  const Progress progress = after(watching(Mode::min, 9), {kNan, -kInfinity, 3, kNan, -kInfinity});
  CHECK(progress.best.at("m") == 3);
  CHECK(progress.best_step == 30);
  CHECK(progress.validations_since == 2);
  CHECK(after(watching(Mode::max, 2), {kNan, kNan}).finished);
}

TEST_CASE("another metric starts anew; a training that ends anyway keeps its reason") {
  const TrainingSpec spec = watching(Mode::max, 2);
  Progress progress;
  progress.best = {{"loss", 100}};
  progress.best_step = 7;
  progress.validations_since = 1;
  progress = after(spec, {0.5}, progress);
  CHECK(progress.best == std::map<std::string, double>{{"m", 0.5}});
  CHECK(progress.validations_since == 0);

  progress.validations_since = 1;
  progress.finished = true;
  progress.ended_by = EndedBy::epochs;
  progress.validation = {{"m", 0.1}};
  judge_validation(progress, spec);
  CHECK(progress.ended_by == EndedBy::epochs);
}

TEST_CASE("a metric that the program does not return is refused with those that it does") {
  CHECK_ERROR(check_best_metric(watching(Mode::min, 0), {"accuracy", "loss"}),
              "best.metric: is 'm', which validation_step does not return; it returns accuracy, "
              "loss");
  check_best_metric(watching(Mode::min, 0), {"m"});
  check_best_metric(TrainingSpec(), {});
}

TEST_CASE("the end is explained") {
  Progress progress = after(watching(Mode::min, 1), {1, 1});
  CHECK(describe_end(progress, watching(Mode::min, 1)) ==
        "early_stopping: m did not improve in 1 validation");
  progress.ended_by = EndedBy::max_steps;
  CHECK(describe_end(progress, TrainingSpec()) == "max_steps: 20 steps are done");
  progress.ended_by = EndedBy::epochs;
  CHECK(describe_end(progress, TrainingSpec()).empty());
}
