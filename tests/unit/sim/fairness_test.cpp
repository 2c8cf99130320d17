#include "core/sim/fairness.h"

#include <doctest/doctest.h>

#include "core/sim/experiment.h"
#include "tests/unit/sim/sample_cluster.h"

using namespace adaptdl;

namespace {

JobResult completed(const std::string& name, double from_s, double to_s) {
  return {.name = name,
          .application = "sample",
          .submitted_s = from_s,
          .completed_s = to_s,
          .jct_s = to_s - from_s};
}

}  // namespace

TEST_CASE("alone, a job takes its rescale and its epochs, longer in proportion on part of a GPU") {
  const Profile profile(sample_profile());  // on one GPU two epochs of 20 s
  CHECK(time_alone(profile, "", 1, 2, 30) == 70);
  CHECK(time_alone(profile, "", 1.9, 2, 30) == 70);
  CHECK(time_alone(profile, "", 0.5, 2, 30) == 140);
  const double four = time_alone(profile, "", 4, 2, 30);
  CHECK(four < 70);
  CHECK(time_alone(profile, "", 100, 2, 30) == four);  // it has no use for more
}

TEST_CASE("fairness compares with an equal share of the cluster") {
  // Both present all the time: each has a right to one of two GPUs.
  std::vector<JobResult> jobs = {completed("a", 0, 140), completed("b", 0, 140)};
  add_fairness(jobs, sample_profiles(), uniform_cluster(1, 2), 30);
  CHECK(jobs[0].fairness == 140.0 / 70);
  CHECK(jobs[1].fairness == 140.0 / 70);

  // Four on two GPUs: half a GPU each.
  jobs.assign(4, completed("a", 0, 140));
  add_fairness(jobs, sample_profiles(), uniform_cluster(1, 2), 30);
  CHECK(jobs[3].fairness == 140.0 / 140);

  // b is there in half of a's time: 1.5 jobs share 3 GPUs; for b it is 2, and 3 / 2 count as one.
  jobs = {completed("a", 0, 200), completed("b", 100, 200)};
  add_fairness(jobs, sample_profiles(), uniform_cluster(1, 3), 30);
  CHECK(jobs[0].fairness == 200 / time_alone(sample_profiles().at("sample"), "", 2, 4, 30));
  CHECK(jobs[1].fairness == 100.0 / 70);
}

TEST_CASE("a job that did not complete counts as present, and has no fairness") {
  std::vector<JobResult> jobs = {completed("a", 0, 140), completed("b", 0, 140)};
  jobs[1].completed_s = jobs[1].jct_s = -1;
  add_fairness(jobs, sample_profiles(), uniform_cluster(1, 2), 30);
  CHECK(jobs[0].fairness == 140.0 / 70);
  CHECK(jobs[1].fairness < 0);
}

TEST_CASE("on several kinds, the time alone is the mean of those on each") {
  ProfileData data = sample_profile();
  Measurements& fast = data.kinds["fast"] = static_cast<const Measurements&>(data);
  for (PlacementMeasurement& row : fast.placements) row.time.step_s /= 2, row.time.sync_s /= 2;
  const std::map<std::string, Profile> profiles = {{"sample", Profile(data)}};
  const std::vector<ClusterNode> nodes = {{"a", "fast", {{"gpu", 1}}}, {"b", "slow", {{"gpu", 3}}}};
  std::vector<JobResult> jobs(4, completed("a", 0, 140));
  add_fairness(jobs, profiles, nodes, 30);
  CHECK(jobs[0].fairness == doctest::Approx(140.0 / (0.25 * 50 + 0.75 * 70)));
}
