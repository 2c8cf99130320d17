#include <doctest/doctest.h>
#include <numeric>

#include "core/policy/job_weights.h"
#include "core/policy/policy.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

constexpr WeightOptions kWeights{
    .preference = 2, .service_exponent = 0.5, .young_s = 100, .least = 0};

// Jobs of one model on one node of 8 GPUs, whose goodput grows nearly with the replicas.
Snapshot alike(int jobs) {
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  snapshot.nodes = {{"node", "", {8}}};
  for (int j = 0; j < jobs; ++j) {
    JobSnapshot job;
    job.name = fmt::format("job-{}", j);
    job.age_s = 1000;
    job.max_replicas = 8;
    job.request = {1};
    job.hints.perf = PerfParams{0.01, 0.01, 0.02, 0.001, 0.005, 0.0001, 2};
    job.hints.grad = GradParams{0.001, 10};
    job.hints.batch = BatchBounds{64, 2048, 1, 256, true};
    job.hints.max_profiled_replicas = 8;
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

std::vector<size_t> replicas(const Snapshot& snapshot) {
  std::vector<size_t> counts;
  const Decision decision = make_policy("proportional")->decide(snapshot, 1, {});
  for (const JobDecision& job : decision.jobs) counts.push_back(job.nodes.size());
  return counts;
}

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

TEST_CASE("a job that has not trained yet counts as a short one among jobs that tell") {
  Snapshot snapshot = alike(2);
  snapshot.jobs[0].hints.remaining_progress = 1e9;
  snapshot.jobs[1].hints = {};
  const auto weights = job_weights(snapshot, kWeights);
  CHECK(weights[1] > weights[0]);
}

TEST_CASE("of jobs of which nothing is known the oldest goes first") {
  Snapshot snapshot = alike(4);
  snapshot.nodes = {{"node", "", {1}}};
  snapshot.jobs[3].hints.remaining_progress = 1e9;  // the others are ranked beside it
  for (size_t j = 0; j < 3; ++j) {
    snapshot.jobs[j].hints = {};
    snapshot.jobs[j].age_s = j == 1 ? 30 : 20;
  }
  CHECK(replicas(snapshot) == std::vector<size_t>{0, 1, 0, 0});
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

TEST_CASE("no weight is below the least") {
  Snapshot snapshot = alike(50);
  for (size_t j = 0; j < 50; ++j) {
    snapshot.jobs[j].hints.remaining_progress = 1e6 / static_cast<double>(j + 1);
  }
  WeightOptions options = kWeights;
  options.least = 0.3;
  for (const double weight : job_weights(snapshot, options)) CHECK(weight >= 0.3);
}

TEST_CASE("equal jobs get equal shares, all that there is") {
  CHECK(replicas(alike(1)) == std::vector<size_t>{8});
  CHECK(replicas(alike(2)) == std::vector<size_t>{4, 4});
  CHECK(replicas(alike(4)) == std::vector<size_t>{2, 2, 2, 2});
}

TEST_CASE("where lengths are known the one that will be done first gets more") {
  Snapshot snapshot = alike(3);
  snapshot.jobs[0].hints.remaining_progress = 1e6;
  snapshot.jobs[1].hints.remaining_progress = 1e4;
  snapshot.jobs[2].hints.remaining_progress = 1e5;
  CHECK(replicas(snapshot) == std::vector<size_t>{2, 4, 2});
}

TEST_CASE("jobs of unknown length trade places only for a real gain, however cheap that is") {
  Snapshot snapshot = alike(3);
  for (auto& job : snapshot.jobs) job.hints.rescale_cost_s = 0;
  snapshot.jobs[0].nodes = {0, 0, 0, 0};
  snapshot.jobs[1].nodes = {0, 0};
  snapshot.jobs[2].nodes = {0, 0};
  snapshot.jobs[0].attained_service = 1000;
  snapshot.jobs[1].attained_service = 900;
  snapshot.jobs[2].attained_service = 2000;
  CHECK(replicas(snapshot) == std::vector<size_t>{4, 2, 2});
  snapshot.jobs[0].attained_service = 1e6;
  CHECK(replicas(snapshot)[0] < 4);
}

TEST_CASE("replicas that take longer to start than an allocation stays are not added") {
  Snapshot snapshot = alike(1);
  JobHints& hints = snapshot.jobs[0].hints;
  snapshot.jobs[0].nodes = {0, 0, 0, 0};
  hints.rescale_cost_s = 0.01;
  hints.remaining_progress = 1e5;
  CHECK(replicas(snapshot) == std::vector<size_t>{8});
  hints.start_cost_s = 5;
  CHECK(replicas(snapshot) == std::vector<size_t>{8});
  hints.start_cost_s = 1000;
  CHECK(replicas(snapshot) == std::vector<size_t>{4});
}

TEST_CASE("a job near its end is left alone") {
  Snapshot snapshot = alike(2);
  snapshot.jobs[0].nodes = {0};
  snapshot.jobs[0].hints.remaining_progress = 1;
  snapshot.jobs[0].hints.rescale_cost_s = 30;
  CHECK(replicas(snapshot)[0] == 1);
}

TEST_CASE("a job that has measured little grows step by step") {
  Snapshot snapshot = alike(1);
  snapshot.jobs[0].hints.max_profiled_replicas = 1;
  CHECK(replicas(snapshot) == std::vector<size_t>{4});
  snapshot.jobs[0].hints = {};
  CHECK(replicas(snapshot) == std::vector<size_t>{1});
}

}  // namespace
}  // namespace adaptdl
