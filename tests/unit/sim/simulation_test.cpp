#include "core/sim/simulation.h"

#include <cmath>
#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"
#include "tests/unit/sim/sample_cluster.h"

using namespace adaptdl;

namespace {

std::vector<JobResult> run(SimCluster& cluster, const AllocatorOptions& options,
                           double patience_s = 7 * 86400) {
  const auto policy = make_policy("fixed");
  Simulation simulation(cluster, *policy, options, patience_s);
  while (simulation.step()) {
  }
  CHECK(simulation.problems().empty());
  return simulation.results();
}

}  // namespace

TEST_CASE("a workload runs to its end") {
  SampleCluster cluster({sample_job("a", 0), sample_job("b", 50), sample_job("c", 70)});
  const auto jobs = run(cluster, {});
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].started_s == 60);
  CHECK(jobs[1].started_s == 60);
  CHECK(jobs[2].started_s == 120);
  CHECK(jobs[0].completed_s == 130);
  CHECK(jobs[1].jct_s == 80);
  CHECK(jobs[2].completed_s == 190);
  CHECK(jobs[0].gpu_s == 70);
  CHECK(jobs[0].restarts == 0);
}

TEST_CASE("the simulation gives up on a job that fits nowhere") {
  WorkloadJob wide = sample_job("wide", 0);
  wide.min_replicas = wide.replicas = 4;
  SampleCluster cluster({sample_job("a", 0), wide});
  cluster.lose_node("node-1");
  const auto jobs = run(cluster, {}, 600);
  CHECK(jobs[0].completed_s == 130);
  CHECK(jobs[1].started_s < 0);
  CHECK(jobs[1].jct_s < 0);
  CHECK(cluster.now_s() <= 130 + 600 + 60);
}

TEST_CASE("the simulation gives up on a job that hardly gets on") {
  ProfileData slow = sample_profile();
  for (PlacementMeasurement& it : slow.placements) it.time.step_s *= 1e6;
  const std::map<std::string, Profile> profiles = {{"sample", Profile(slow)}};
  SampleCluster cluster({sample_job("a", 0)}, {}, profiles);
  const auto jobs = run(cluster, {}, 6000);
  CHECK(jobs[0].started_s == 60);
  CHECK(jobs[0].jct_s < 0);
  CHECK(cluster.now_s() < 20'000);
}

TEST_CASE("it does not give up while something is to come") {
  WorkloadJob wide = sample_job("wide", 0);
  wide.min_replicas = wide.replicas = 4;
  SampleCluster cluster({wide});
  cluster.lose_node("node-1");
  const auto policy = make_policy("fixed");
  Simulation simulation(cluster, *policy, {}, 600);
  simulation.at(5000, [&] { cluster.return_node("node-1"); });
  while (simulation.step()) {
  }
  CHECK(simulation.results()[0].started_s >= 5000);
  CHECK(cluster.all_finished());
}

TEST_CASE("rounds while nobody is there are counted, but take no time") {
  SampleCluster cluster({sample_job("a", 0), sample_job("b", 9e8 + 1)});
  const auto policy = make_policy("fixed");
  Simulation simulation(cluster, *policy, {});
  int played = 0;
  while (simulation.step()) ++played;
  CHECK(played < 10);
  CHECK(simulation.results()[1].started_s == 9e8 + 60);
  CHECK(simulation.results()[1].jct_s == 129);
  CHECK(simulation.policy_times().rounds == 15'000'003);
}

TEST_CASE("with an event gap, rounds come soon after arrivals") {
  const auto started = [](double submitted_s, double gap_s) {
    SampleCluster cluster({sample_job("first", 0), sample_job("a", submitted_s)});
    return run(cluster, {.interval_s = 60, .event_gap_s = gap_s}).at(1).started_s;
  };
  CHECK(started(31, INFINITY) == 60);
  CHECK(started(61, INFINITY) == 120);
  CHECK(started(31, 10) == 40);
  CHECK(started(61, 10) == 70);
}

TEST_CASE("actions happen at their time, in order, and call a round") {
  SampleCluster cluster({sample_job("a", 0)});
  const auto policy = make_policy("fixed");
  Simulation simulation(cluster, *policy, {.interval_s = 60, .event_gap_s = 5});
  std::vector<std::pair<int, double>> seen;
  const auto note = [&](int id) {
    return [&seen, &cluster, id] { seen.emplace_back(id, cluster.now_s()); };
  };
  simulation.at(33, note(2));
  simulation.at(12.5, note(1));
  simulation.at(33, note(3));
  while (simulation.step()) {
  }
  using Seen = std::vector<std::pair<int, double>>;
  CHECK(seen == Seen{{1, 12.5}, {2, 33}, {3, 33}});
  CHECK(simulation.results()[0].started_s == 5);
  CHECK(simulation.results()[0].completed_s == 75);
}

TEST_CASE("a job whose node is lost starts anew elsewhere and loses no progress") {
  SampleCluster cluster({sample_job("a", 0)});
  const auto policy = make_policy("fixed");
  Simulation simulation(cluster, *policy, {});
  simulation.at(100, [&] { cluster.lose_node(std::string(cluster.job("a").nodes.at(0))); });
  while (simulation.step()) {
  }
  const JobResult job = simulation.results().at(0);
  CHECK(job.started_s == 60);
  CHECK(job.restarts == 1);
  // 10 s of training to 100, 20 s without GPUs, 30 s for the restart, the other 30 s.
  CHECK(job.completed_s == 180);
  CHECK(job.gpu_s == 40 + 60);
}

TEST_CASE("percentiles lie between order statistics") {
  CHECK(percentile({3, 1, 2}, 0.5) == 2);
  CHECK(percentile({4, 1, 3, 2}, 0.5) == 2.5);
  CHECK(percentile({1, 2}, 0.99) == doctest::Approx(1.99));
  CHECK(percentile({7}, 0.99) == 7);
  CHECK(percentile({1, 2, 3}, 0) == 1);
  CHECK(percentile({1, 2, 3}, 1) == 3);
  CHECK(std::isnan(percentile({}, 0.5)));
}

TEST_CASE("a summary counts those that completed, and everybody's GPUs and restarts") {
  std::vector<JobResult> jobs(3);
  jobs[0] = {.name = "a", .completed_s = 100, .jct_s = 100, .restarts = 2, .gpu_s = 1800};
  jobs[1] = {.name = "b", .completed_s = 400, .jct_s = 300, .restarts = 1, .gpu_s = 3600};
  jobs[2] = {.name = "c", .gpu_s = 1800};
  jobs[0].fairness = 0.5;
  jobs[1].fairness = 1.5;
  const SimulationSummary summary = summarise(jobs, {.rounds = 4, .sum_s = 2, .max_s = 1});
  CHECK(summary.jobs == 3);
  CHECK(summary.completed == 2);
  CHECK(summary.avg_jct_s == 200);
  CHECK(summary.p50_jct_s == 200);
  CHECK(summary.p99_jct_s == doctest::Approx(298));
  CHECK(summary.max_jct_s == 300);
  CHECK(summary.makespan_s == 400);
  CHECK(summary.gpu_hours == 2);
  CHECK(summary.restarts_per_job == 1);
  CHECK(summary.worst_fairness == 1.5);
  CHECK(summary.mean_fairness == 1);
  CHECK(summary.rounds == 4);
  CHECK(summary.policy_mean_s == 0.5);
  CHECK(summary.policy_max_s == 1);
  CHECK(std::isnan(summarise({}, {}).avg_jct_s));
}
