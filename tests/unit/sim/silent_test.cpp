#include <doctest/doctest.h>

#include "core/sim/simulation.h"
#include "tests/unit/sim/sample_cluster.h"

using namespace adaptdl;

namespace {

// The mean completion time of six silent jobs of 700 s on one GPU each, or 260 s on all four.
double mean_jct_s(double restart_s, double every_s, bool restartable) {
  ProfileData data = sample_profile();
  for (PlacementMeasurement& it : data.placements) {
    it.time.step_s *= 10;
    it.time.sync_s *= 10;
  }
  const std::map<std::string, Profile> profiles = {{"sample", Profile(data)}};
  std::vector<WorkloadJob> workload;
  for (int j = 0; j < 6; ++j) {
    WorkloadJob job = sample_job("silent-" + std::to_string(j), j * every_s);
    job.min_replicas = 1;
    job.max_replicas = 4;
    job.silent = true;
    job.restartable = restartable;
    job.restart_s = restart_s;
    workload.push_back(job);
  }
  SampleCluster cluster(workload, {}, profiles);
  const auto policy = make_policy("proportional");
  Simulation simulation(cluster, *policy, {});
  while (simulation.step()) {
  }
  CHECK(simulation.problems().empty());
  double sum = 0;
  for (const JobResult& job : simulation.results()) {
    REQUIRE(job.jct_s > 0);
    sum += job.jct_s;
  }
  return sum / static_cast<double>(workload.size());
}

}  // namespace

TEST_CASE("silent jobs gain by growing, and lose little where a restart is dearer than they tell") {
  for (const double every_s : {20, 60, 120, 240, 480, 1000}) {
    for (const double restart_s : {1, 15, 30, 60, 120, 300, 600}) {
      INFO("every " << every_s << " s, a restart takes " << restart_s << " s");
      const double grows = mean_jct_s(restart_s, every_s, true);
      const double stays = mean_jct_s(restart_s, every_s, false);
      CHECK(grows <= (restart_s <= 60 ? 1 : 1.2) * stays);
    }
  }
}
