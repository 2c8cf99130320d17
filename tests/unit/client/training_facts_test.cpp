#include "core/client/training_facts.h"

#include <doctest/doctest.h>

#include "core/goodput/goodput.h"

namespace adaptdl::client {
namespace {

constexpr const char* kHints =
    R"({"initBatchSize": 32, "localBszBounds": [8, 128], "globalBatchSize": 512,
        "maxBatchSize": 1024, "gradParams": {"norm": 0.5, "var": 40},
        "perfParams": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.05, "beta_n": 0.01,
                       "alpha_r": 0.03, "beta_r": 0.001, "gamma": 1.5},
        "remainingProgress": 1000})";

JobView running(const char* hints, Json status = nullptr) {
  JobView job;
  job.name = "digits";
  job.replicas = 2;
  job.hints = hints;
  job.status = std::move(status);
  return job;
}

TEST_CASE("what a status says") {
  const TrainingFacts facts = training_facts(Json{{"step", 7},
                                                  {"loss", -0.5},
                                                  {"progress", 25.0},
                                                  {"progress_total", 100},
                                                  {"seconds_left", 30.5},
                                                  {"goodput", 1e3},
                                                  {"batch", 64}});
  CHECK(facts.step == 7);
  CHECK(facts.loss == -0.5);
  CHECK(facts.done() == 0.25);
  CHECK(facts.seconds_left == 30.5);
  CHECK(facts.goodput == 1e3);
  CHECK(facts.batch == 64);
}

TEST_CASE("a status may be anything") {
  for (const Json& status :
       {Json(), Json(7), Json::array({1}), Json{{"progress", "x"}, {"progress_total", 0}},
        Json{{"progress", -1}, {"progress_total", -2}, {"seconds_left", 1e300}, {"batch", 1e30}}}) {
    const TrainingFacts facts = training_facts(status);
    CHECK_FALSE(facts.done());
    CHECK_FALSE(facts.seconds_left);
    CHECK_FALSE(facts.batch);
  }
  CHECK(training_facts(Json{{"progress", 3}, {"progress_total", 2}}).done() == 1.0);
}

TEST_CASE("hints say what the status lacks") {
  const TrainingFacts facts = training_facts(running(kHints));
  CHECK(facts.batch == 512);
  // 256 samples for each of two replicas, of which 128 fit at a time.
  const GoodputModel model({0.05, 0.002, 0.05, 0.01, 0.03, 0.001, 1.5}, {0.5, 40}, 32);
  REQUIRE(facts.goodput);
  CHECK(*facts.goodput == doctest::Approx(model.evaluate(1, 2, 128, 1)));
  REQUIRE(facts.seconds_left);
  CHECK(*facts.seconds_left == doctest::Approx(1000 * 32 / *facts.goodput));
  CHECK_FALSE(facts.done());  // hints do not say how long the whole training is

  const TrainingFacts measured =
      training_facts(running(kHints, {{"goodput", 100.0}, {"seconds_left", 5}}));
  CHECK(measured.goodput == 100.0);
  CHECK(measured.seconds_left == 5.0);
  CHECK(measured.batch == 512);
}

TEST_CASE("replicas on several nodes are slower") {
  JobView job = running(kHints);
  job.nodes = {"n1", "n1"};
  const double near = training_facts(job).goodput.value_or(0);
  job.nodes = {"n1", "n2"};
  CHECK(training_facts(job).goodput.value_or(0) < near);
}

TEST_CASE("hints that are invalid or lack the model say little or nothing") {
  for (const char* hints : {"", "{", "[]", R"({"globalBatchSize": -1})", "{}"}) {
    const TrainingFacts facts = training_facts(running(hints));
    CHECK_FALSE(facts.batch);
    CHECK_FALSE(facts.goodput);
  }
  const TrainingFacts few = training_facts(running(R"({"globalBatchSize": 64})"));
  CHECK(few.batch == 64);
  CHECK_FALSE(few.goodput);
}

TEST_CASE("a job that does not run has no such facts") {
  JobView job = running(kHints, {{"progress", 1}, {"progress_total", 2}});
  job.replicas = 0;
  CHECK_FALSE(training_facts(job).done());
  CHECK_FALSE(training_facts(job).batch);
  job.replicas = 2;
  job.ended_s = 3;
  CHECK_FALSE(training_facts(job).done());
}

}  // namespace
}  // namespace adaptdl::client
