#include <doctest/doctest.h>
#include <utility>

#include "core/policy/feasibility.h"
#include "core/sim/baselines/optimus.h"
#include "core/sim/baselines/published_policy.h"
#include "core/sim/baselines/tiresias.h"
#include "core/sim/experiment.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/policy/random_snapshot.h"
#include "tests/unit/sim/sample_profile.h"

using namespace adaptdl;

namespace {

struct Job {
  const char* name;
  int requested = 1;
  NodeList nodes{};
  double age_s = 0;
};

Snapshot snapshot(const std::vector<int64_t>& gpus, const std::vector<Job>& jobs) {
  Snapshot result;
  result.resources = {"gpu"};
  for (size_t n = 0; n < gpus.size(); ++n) {
    result.nodes.push_back({"node" + std::to_string(n), "", {gpus[n]}});
  }
  for (const Job& job : jobs) {
    JobSnapshot view;
    view.name = job.name;
    view.age_s = job.age_s;
    view.max_replicas = 64;
    view.requested_replicas = job.requested;
    view.request = {1};
    view.nodes = job.nodes;
    result.jobs.push_back(view);
  }
  return result;
}

std::vector<NodeList> lists(const Decision& decision) {
  std::vector<NodeList> result;
  for (const JobDecision& job : decision.jobs) {
    result.push_back(job.nodes);
    CHECK_FALSE(job.why.empty());
  }
  return result;
}

using Lists = std::vector<NodeList>;

// Feasible whatever the snapshot; calls follow each other as in a cluster.
void check_feasible(Policy& policy, uint64_t seed) {
  SnapshotShape shape;
  shape.jobs = 30;
  shape.pinned = 0.3;
  Snapshot now = random_snapshot(seed, shape);
  for (int round = 0; round < 5; ++round) {
    const auto allocation = lists(policy.decide(now, 0, {}));
    const auto broken = broken_rule(now, allocation, false);
    CAPTURE(seed);
    CHECK_MESSAGE(!broken, broken.value_or(""));
    for (size_t j = 0; j < now.jobs.size(); ++j) {
      now.jobs[j].nodes = allocation[j];
      now.jobs[j].age_s += 60;
    }
    now.jobs.erase(now.jobs.begin());
  }
}

}  // namespace

TEST_CASE("tiresias serves its queue, and lets smaller jobs pass those that do not fit") {
  Tiresias policy;
  const auto got =
      lists(policy.decide(snapshot({4, 4}, {{"a", 3}, {"b", 6}, {"c", 5}, {"d", 1}}), 0, {}));
  CHECK(got == Lists{{0, 0, 0}, {}, {1, 1, 1, 1, 0}, {}});
}

TEST_CASE("tiresias leaves running jobs where they are") {
  Tiresias policy;
  const auto got =
      lists(policy.decide(snapshot({4, 4}, {{"a", 2, {1, 0}}, {"b", 2}, {"c", 3}}), 0, {}));
  CHECK(got == Lists{{1, 0}, {0, 0}, {1, 1, 1}});
}

TEST_CASE("tiresias moves a job that has had its share behind the others") {
  Tiresias policy;
  const auto at = [&](double age_s, NodeList a, NodeList b) {
    return lists(policy.decide(
        snapshot({4}, {{"a", 4, std::move(a), age_s}, {"b", 2, std::move(b), age_s}}), 0, {}));
  };
  const NodeList four{0, 0, 0, 0}, two{0, 0};
  CHECK(at(0, {}, {}) == Lists{four, {}});
  CHECK(at(14399, four, {}) == Lists{four, {}});  // 4 x 14399 of 57600 GPU seconds
  CHECK(at(14400, four, {}) == Lists{{}, two});
  CHECK(at(43199, {}, two) == Lists{{}, two});
  CHECK(at(43200, {}, two) == Lists{four, {}});  // both in the second queue: a was there first
}

TEST_CASE("a job that comes back under the name of one that has gone is new to tiresias") {
  Tiresias policy;
  const NodeList four{0, 0, 0, 0};
  policy.decide(snapshot({4}, {{"a", 4}}), 0, {});
  policy.decide(snapshot({4}, {{"a", 4, four, 20000}}), 0, {});
  policy.decide(snapshot({4}, {}), 0, {});
  const auto got = lists(policy.decide(snapshot({4}, {{"a", 4, {}, 1}, {"b", 4, four, 9}}), 0, {}));
  CHECK(got == Lists{four, {}});
}

TEST_CASE("optimus gives GPUs to who gains most, and moves only who has another number") {
  const Profile profile(sample_profile());
  std::map<std::string, TrueJob> truth = {{"a", {&profile, "", 0, 80}},
                                          {"b", {&profile, "", 1, 80}}};
  Optimus policy([&](const std::string& name) { return truth.at(name); });
  // Steps on 1, 2, 3, 4 GPUs: two of 0.4 s, 0.4, 0.27, 0.2. The first has 30 steps and more to go,
  // the second 1.
  auto got = lists(policy.decide(snapshot({2, 2}, {{"a"}, {"b"}}), 0, {}));
  CHECK(got[0].size() == 3);
  CHECK(got[1].size() == 1);
  CHECK(got[1] == NodeList{0});  // placed first: fewer
  CHECK(got[0] == NodeList{1, 1, 0});

  got = lists(policy.decide(snapshot({2, 2}, {{"a", 1, {0, 1, 0}}, {"b", 1, {1}}}), 0, {}));
  CHECK(got == Lists{{0, 1, 0}, {1}});

  // As many jobs as GPUs: one each, in the snapshot's order; the last has none.
  got = lists(policy.decide(snapshot({1}, {{"b"}, {"a"}}), 0, {}));
  CHECK(got == Lists{{0}, {}});
}

TEST_CASE("optimus gives no more than the batch can feed, and the profile allows") {
  ProfileData data = sample_profile();
  data.max_replicas = 3;
  const Profile three(data), plain(sample_profile());
  Optimus policy([&](const std::string& name) {
    return name == "a" ? TrueJob{&three, "", 0, 80} : TrueJob{&plain, "", 0, 20};
  });
  const auto got = lists(policy.decide(snapshot({4, 4}, {{"a"}, {"b"}}), 0, {}));
  CHECK(got[0].size() <= 3);
  CHECK(got[1].size() <= 2);
}

TEST_CASE("optimus knows the jobs' speed on the nodes with GPUs, whichever node is the first") {
  ProfileData data = sample_profile();
  data.kinds["a"] = std::exchange(static_cast<Measurements&>(data), {});
  WorkloadJob job;
  job.name = "one";
  job.application = "sample";
  job.batch_size = 20;
  ExperimentOptions options;
  options.nodes = {{"front", "", {{"gpu", 0}}}, {"back", "a", {{"gpu", 2}}}};
  check_nodes("optimus", options.nodes);
  const ExperimentResult result =
      run_experiment("optimus", {job}, {{"sample", Profile(data)}}, options, {});
  CHECK(result.problems.empty());
  CHECK(result.jobs.at(0).jct_s > 0);
}

TEST_CASE("published policies answer every snapshot of theirs feasibly") {
  const Profile profile(sample_profile());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Tiresias tiresias;
    check_feasible(tiresias, seed);
    Optimus optimus([&](const std::string&) { return TrueJob{&profile, "", 0, 80}; });
    check_feasible(optimus, seed);
  }
}

TEST_CASE("published policies refuse what they know nothing of") {
  Tiresias policy;
  Snapshot two_kinds = snapshot({4, 4}, {});
  two_kinds.nodes[1].accelerator = "a100";
  CHECK_ERROR(policy.decide(two_kinds, 0, {}), "one kind only");
  two_kinds.nodes[1].capacity = {0};  // a node without GPUs is of no kind
  CHECK(policy.decide(two_kinds, 0, {}).jobs.empty());
  Snapshot wide = snapshot({4}, {{"a"}});
  wide.jobs[0].request = {2};
  CHECK_ERROR(policy.decide(wide, 0, {}), "a replica of job a requests 2 of gpu");
  CHECK(policy.decide(snapshot({}, {{"a"}}), 0, {}).jobs[0].nodes.empty());
}
