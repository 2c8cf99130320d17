#include "core/policy/job_weights.h"

#include <cmath>
#include <doctest/doctest.h>
#include <numeric>

#include "tests/unit/policy/alike_jobs.h"

namespace adaptdl {
namespace {

constexpr WeightOptions kWeights{
    .preference = 2, .service_exponent = 0.5, .least = 0, .rescale_cost_s = 50};

TEST_CASE("weights grow with the rank, from the longest job to the shortest") {
  Snapshot snapshot = alike(4);
  for (size_t j = 0; j < 4; ++j) {
    snapshot.jobs[j].hints.remaining_progress = 1e6 / std::pow(10, static_cast<double>(j));
  }
  const auto weights = job_weights(snapshot, kWeights);
  // (i/4)^2 - ((i-1)/4)^2, times 4: 1, 3, 5, 7 quarters.
  for (size_t j = 0; j < 4; ++j) {
    CHECK(weights[j] == doctest::Approx(static_cast<double>(2 * j + 1) / 4));
  }
}

TEST_CASE("among jobs that scale well the first weighs more than among those that do not") {
  const auto first_weight = [](double network_s) {
    Snapshot snapshot = alike(4);
    for (size_t j = 0; j < 4; ++j) {
      snapshot.jobs[j].max_replicas = 32;
      snapshot.jobs[j].hints.remaining_progress = 1e6 / std::pow(10, static_cast<double>(j));
      snapshot.jobs[j].hints.perf->alpha_n = network_s;
    }
    WeightOptions options = kWeights;
    options.preference = 6;
    return job_weights(snapshot, options)[3];
  };
  CHECK(first_weight(0.001) > first_weight(1));
}

TEST_CASE("a job that has not trained yet counts as one whose end is five starts away") {
  Snapshot snapshot = alike(3);
  const double samples_s =
      GoodputModel(*snapshot.jobs[0].hints.perf, *snapshot.jobs[0].hints.grad, 64)
          .optimize(1, 8, *snapshot.jobs[0].hints.batch)
          .goodput;
  const auto new_weighs_more_than = [&](double remaining_s) {
    snapshot.jobs[0].hints.remaining_progress = remaining_s * samples_s / 64;
    snapshot.jobs[1].hints = snapshot.jobs[2].hints = {};
    const auto weights = job_weights(snapshot, kWeights);
    return weights[1] > weights[0];
  };
  // 50 s by the option.
  CHECK(new_weighs_more_than(260));
  CHECK_FALSE(new_weighs_more_than(240));
  // As the others have measured.
  snapshot.jobs[0].hints.rescale_cost_s = 1;
  snapshot.jobs[0].hints.start_cost_s = 3;
  CHECK(new_weighs_more_than(21));
  CHECK_FALSE(new_weighs_more_than(19));
}

TEST_CASE("of jobs of which nothing is known the oldest goes first") {
  Snapshot snapshot = alike(4);
  snapshot.jobs[3].hints.remaining_progress = 1e9;  // the others are ranked beside it
  for (size_t j = 0; j < 3; ++j) {
    snapshot.jobs[j].hints = {};
    snapshot.jobs[j].age_s = j == 1 ? 30 : 20;
  }
  const auto weights = job_weights(snapshot, kWeights);
  CHECK(weights[1] > weights[0]);
  CHECK(weights[0] > weights[2]);  // by name
}

TEST_CASE("jobs that do not tell count less the more service they have had") {
  Snapshot snapshot = alike(3);
  snapshot.jobs[0].attained_service = 0;
  snapshot.jobs[1].attained_service = 300;
  snapshot.jobs[2].attained_service = 9900;
  const auto weights = job_weights(snapshot, kWeights);
  CHECK(weights[0] / weights[1] == doctest::Approx(2));
  CHECK(weights[0] / weights[2] == doctest::Approx(10));
  CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) == doctest::Approx(3));
}

TEST_CASE("a job that does not tell weighs by the lengths of jobs like it") {
  Snapshot snapshot = alike(3);
  for (JobSnapshot& job : snapshot.jobs) job.attained_service = 300;
  snapshot.jobs[0].length_rank = 0;
  snapshot.jobs[2].length_rank = 9900;
  const auto weights = job_weights(snapshot, kWeights);
  // (rank + 2 x 50 s)^-0.5, in proportion.
  CHECK(weights[0] / weights[1] == doctest::Approx(2));
  CHECK(weights[0] / weights[2] == doctest::Approx(10));
}

TEST_CASE("a job that has measured nothing is ranked by jobs like it, else by what it has had") {
  Snapshot snapshot = alike(2);
  snapshot.jobs[0].hints.remaining_progress = 1e6;
  snapshot.jobs[1].hints = {};
  const auto weighs_more = [&] {
    const auto weights = job_weights(snapshot, kWeights);
    return weights[1] > weights[0];
  };
  CHECK(weighs_more());
  snapshot.jobs[1].length_rank = 1e9;
  CHECK_FALSE(weighs_more());
  snapshot.jobs[1].length_rank = 10;
  snapshot.jobs[1].attained_service = 1e9;
  CHECK(weighs_more());
  snapshot.jobs[1].length_rank.reset();  // it has run for long, and still tells nothing
  CHECK_FALSE(weighs_more());
}

TEST_CASE("a job's rank does not depend on the kind of accelerator that it is on") {
  Snapshot snapshot = alike(2);
  for (JobSnapshot& job : snapshot.jobs) {
    job.hints.remaining_progress = 1e6;
    job.hints.kinds["slow"].perf = job.hints.perf;
    PerfParams& present = *job.hints.perf;
    present.alpha_c /= 4;
    present.beta_c /= 4;
    job.hints.kinds["very fast"].perf = present;
  }
  snapshot.jobs[0].hints.perf = snapshot.jobs[0].hints.kinds["slow"].perf;
  snapshot.jobs[1].hints.remaining_progress = 1.1e6;  // the other one ends first on any kind
  const auto weights = job_weights(snapshot, kWeights);
  CHECK(weights[0] > weights[1]);
}

TEST_CASE("what a job has had of several GPUs for each replica is time of these together") {
  Snapshot snapshot = alike(2);
  snapshot.jobs[0].hints.remaining_progress = 1e6;
  snapshot.jobs[1].hints = {};
  const auto weighs_more = [&](double gpu_seconds) {
    snapshot.jobs[1].attained_service = gpu_seconds;
    const auto weights = job_weights(snapshot, kWeights);
    return weights[1] > weights[0];
  };
  double limit = 1;  // of GPU seconds
  while (weighs_more(limit)) limit *= 2;
  snapshot.jobs[1].request = {4};
  CHECK(weighs_more(2 * limit));
  CHECK_FALSE(weighs_more(4 * limit));
  snapshot.resources = {"cpu"};  // in millicores, and service in replicas
  CHECK_FALSE(weighs_more(limit));
}

TEST_CASE("no weight is below the least") {
  Snapshot snapshot = alike(50);
  for (size_t j = 0; j < 50; ++j) {
    snapshot.jobs[j].hints.remaining_progress = 1e6 / static_cast<double>(j + 1);
  }
  WeightOptions options = kWeights;
  options.least = 0.3;
  for (const double weight : job_weights(snapshot, options)) CHECK(weight >= 0.3);
}

}  // namespace
}  // namespace adaptdl
