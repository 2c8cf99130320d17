// Progress: what is saved and sent is read back to the last bit.

#include "runtime/session/progress.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

Progress sample() {
  Progress progress;
  progress.tick = 1234;
  progress.step = 1200;
  progress.iterations = 1.0 / 3;
  progress.position = {3, 1, 77, 5};
  progress.batch = {16, 2};
  progress.batch_replicas = 3;
  progress.measure = false;
  progress.epoch_loss_sum = 0.1;
  progress.sums = {{"right", 17}};
  progress.turn = 2;
  progress.turn_loss = 0.3;
  progress.turn_skipped = true;
  progress.validation = {{"loss", 0.1}, {"accuracy", 0.9}};
  progress.ended_by = EndedBy::max_time;
  progress.trained_s = 12.5;
  progress.best = {{"loss", 0.05}};
  progress.best_step = 900;
  progress.to_improve = 0.06;
  progress.validations_since = 2;
  progress.statistics = gns::GradientStatistics(2, TrainingSpec::Averaging::recent);
  progress.statistics.update(2, 1.5, {{3.0, 2.0, 0, 0}, {1.0, 0.3, 0, 0}});
  return progress;
}

Progress through_text(const Progress& progress) {
  return progress_from_json(nlohmann::json::parse(to_json(progress).dump()));
}

}  // namespace

TEST_CASE("progress is the same behind a text") {
  const Progress progress = sample();
  CHECK(digest(through_text(progress)) == digest(progress));
  CHECK(through_text(progress).ended_by == EndedBy::max_time);
  CHECK(through_text(progress).best == progress.best);
  CHECK(through_text(progress).sums == progress.sums);
  CHECK(through_text(progress).turn == 2);
  Progress other = progress;
  other.iterations = std::nextafter(other.iterations, 1);
  CHECK(digest(other) != digest(progress));
}

TEST_CASE("metrics of a model that diverges are no reason to lose it") {
  Progress progress = sample();
  const double infinity = std::numeric_limits<double>::infinity();
  progress.validation = {{"a", -std::nan("")}, {"b", infinity}, {"c", -infinity}, {"d", 1}};
  const Progress again = through_text(progress);
  CHECK(digest(again) == digest(progress));
  CHECK(std::isnan(again.validation.at("a")));
  CHECK(again.validation.at("b") == infinity);
  CHECK(again.validation.at("c") == -infinity);
}

TEST_CASE("the progress of an earlier version has defaults for what it lacks") {
  auto json = to_json(sample());
  for (const char* name :
       {"ended_by", "trained_s", "best", "best_step", "to_improve", "validations_since"}) {
    CHECK(json.erase(name) == 1);
  }
  const Progress progress = progress_from_json(json);
  CHECK(progress.step == 1200);
  CHECK(progress.trained_s == 0);
  CHECK(progress.best.empty());
}

TEST_CASE("what is no progress is refused") {
  auto json = to_json(sample());
  json.erase("position");
  json["step"] = "many";
  CHECK_ERROR(progress_from_json(json), "cannot read the saved progress");
}
