#include "core/policy/change_cost.h"

#include <cmath>
#include <doctest/doctest.h>

namespace adaptdl {
namespace {

// The mean of log(1 + u / T) over quantiles of T, P(T > t) = 1 / (1 + t).
double mean_by_quantiles(double u) {
  constexpr int kQuantiles = 2'000'000;
  double sum = 0;
  for (int i = 0; i < kQuantiles; ++i) {
    const double p = (i + 0.5) / kQuantiles;
    sum += std::log1p(u * (1 - p) / p);
  }
  return sum / kQuantiles;
}

TEST_CASE("the expected loss is the mean over the times that may follow") {
  for (const double u : {0.01, 0.3, 0.999, 1.0, 3.0, 50.0}) {
    CHECK(expected_log_loss(u * 7, 7) == doctest::Approx(mean_by_quantiles(u)).epsilon(1e-4));
  }
  CHECK(expected_log_loss(0, 7) == 0);
  CHECK(expected_log_loss(1 + 1e-7, 1) == doctest::Approx(expected_log_loss(1 + 1e-5, 1)));
}

JobSnapshot job_of(double age_s, double rescale_s) {
  JobSnapshot job;
  job.age_s = age_s;
  job.hints.rescale_cost_s = rescale_s;
  return job;
}

TEST_CASE("a change costs the less the longer allocations have lasted") {
  JobSnapshot job = job_of(990, 10);
  CHECK(ChangeCost(job, 30)(0, 1) == expected_log_loss(10, 1000));
  job.restarts = 9;
  CHECK(ChangeCost(job, 30)(0, 1) == expected_log_loss(10, 100));
  // Whatever it costs, it pays some day.
  for (const double rescale_s : {0.1, 10.0, 3600.0}) {
    CHECK(ChangeCost(job_of(1000 * rescale_s, rescale_s), 30)(0, 1) < 0.01);
  }
}

TEST_CASE("while new replicas start only what they add is lost") {
  JobSnapshot job = job_of(1000, 5);
  job.hints.start_cost_s = 20;
  const ChangeCost cost(job, 30);
  CHECK(cost.whole_s() == 25);
  CHECK(cost(0, 1) == expected_log_loss(5, 1025));
  CHECK(cost(0.5, 1) == expected_log_loss(15, 1025));
  CHECK(cost(2, 1) == cost(1, 1));
}

TEST_CASE("a job that tells its end pays for the time until then") {
  JobSnapshot job = job_of(1e9, 10);
  job.hints.batch = BatchBounds{64, 64, 1, 64, false};
  job.hints.remaining_progress = 100;
  // 6400 samples at 64 per second.
  CHECK(ChangeCost(job, 30)(0, 64) == doctest::Approx(std::log(1.1)));
  CHECK(ChangeCost(job, 30)(0, 128) == doctest::Approx(std::log(1.2)));
  job.hints.remaining_progress = 0;
  CHECK(ChangeCost(job, 30)(0, 64) > 10);
}

TEST_CASE("a job that has not measured its cost is taken to need the option's") {
  JobSnapshot job = job_of(970, 0);
  job.hints.rescale_cost_s.reset();
  CHECK(ChangeCost(job, 30)(0, 1) == expected_log_loss(30, 1000));
  CHECK(ChangeCost(job, 0)(1, 1) == 0);
}

}  // namespace
}  // namespace adaptdl
