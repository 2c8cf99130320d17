#include "core/sched/allocator.h"

#include <cmath>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/sched/policy_input.h"

namespace adaptdl {
namespace {

// Keeps what it is told, in the order it is told.
class RecordingCluster : public Cluster {
 public:
  double now_s() override { return time_s; }
  std::vector<ClusterNode> nodes() override { return nodes_; }
  std::vector<ClusterJob> jobs() override { return jobs_; }
  void allocate(const std::string& job, const std::vector<std::string>& nodes,
                const std::string& why) override {
    if (job == refused) fail("the API server says no");
    calls.push_back(job + ":" + fmt::format("{}", fmt::join(nodes, ",")));
    for (ClusterJob& known : jobs_) {
      if (known.name == job) known.nodes = nodes;
    }
    last_why = why;
  }
  void explain(const std::string& job, const std::string& why) override {
    explained.push_back(job + ": " + why);
  }

  ClusterJob& add(const std::string& name, std::vector<std::string> nodes = {}) {
    ClusterJob job;
    job.name = name;
    job.nodes = std::move(nodes);
    job.max_replicas = 8;
    job.request = {{"gpu", 1}};
    jobs_.push_back(job);
    return jobs_.back();
  }

  double time_s = 0;
  std::vector<ClusterNode> nodes_ = {{"a", "", {{"gpu", 2}}}, {"b", "", {{"gpu", 2}}}};
  std::vector<ClusterJob> jobs_;
  std::vector<std::string> calls, explained;
  std::string refused, last_why;
};

// Answers by job name.
class ScriptedPolicy : public Policy {
 public:
  Decision decide(const Snapshot& snapshot, uint64_t, const SearchBudget& given) override {
    seen = snapshot;
    budget = given;
    Decision decision;
    decision.cut_short = given.deadline && Monotonic::now() >= *given.deadline;
    for (const JobSnapshot& job : snapshot.jobs) {
      const auto found = answers.find(job.name);
      decision.jobs.push_back({found == answers.end() ? job.nodes : found->second, why});
    }
    return decision;
  }
  std::map<std::string, NodeList> answers;
  std::string why = "because";
  Snapshot seen;
  SearchBudget budget;
};

TEST_CASE("a round applies what changed, taking before giving") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("grows");
  cluster.add("shrinks", {"a", "a"});
  cluster.add("stays", {"b"});
  policy.answers = {{"grows", {0, 1}}, {"shrinks", {0}}, {"stays", {1}}};
  Allocator allocator(cluster, policy, {});
  const AllocatorRound round = allocator.round();
  CHECK(cluster.calls == std::vector<std::string>{"shrinks:a", "grows:a,b"});
  CHECK(round.changes == 2);
  CHECK(round.jobs == 3);
  CHECK(cluster.explained == std::vector<std::string>{"stays: because"});
}

TEST_CASE("a reason that stays is told once") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("waits");
  Allocator allocator(cluster, policy, {});
  allocator.round();
  allocator.round();
  CHECK(cluster.explained.size() == 1);
  policy.why = "for another reason";
  allocator.round();
  CHECK(cluster.explained.back() == "waits: for another reason");
}

TEST_CASE("the policy has so long in each round, and reasons say when time ran out") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("waits");
  Allocator unhurried(cluster, policy, {.work = 5});
  CHECK_FALSE(unhurried.round().cut_short);
  CHECK(policy.budget.work == 5);
  CHECK_FALSE(policy.budget.deadline);
  CHECK(cluster.explained.back() == "waits: because");

  Allocator patient(cluster, policy, {.policy_limit_s = 3600});
  CHECK_FALSE(patient.round().cut_short);
  const auto first = policy.budget.deadline;
  CHECK_FALSE(patient.round().cut_short);
  CHECK(policy.budget.deadline > first);

  Allocator hurried(cluster, policy, {.policy_limit_s = 0});
  CHECK(hurried.round().cut_short);
  CHECK(cluster.explained.back() ==
        "waits: because; the search timed out, so a better allocation may exist");
}

TEST_CASE("rounds come at the interval's end, or soon after something happened") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  Allocator allocator(cluster, policy, {.interval_s = 60, .event_gap_s = 10});
  CHECK(allocator.due() == 0);
  allocator.round();
  CHECK(allocator.due() == 60);
  allocator.something_happened(3);
  CHECK(allocator.due() == 10);
  allocator.something_happened(30);
  CHECK(allocator.due() == 10);
  cluster.time_s = 10;
  allocator.round();
  CHECK(allocator.due() == 70);
  allocator.something_happened(45);
  CHECK(allocator.due() == 45);

  Allocator patient(cluster, policy, {.interval_s = 60});
  patient.round();
  patient.something_happened(20);
  CHECK(patient.due() == 70);
}

TEST_CASE("a job with absurd hints takes part without them, and the round says so") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("bad").hints.remaining_progress = std::nan("");
  cluster.add("good").hints.remaining_progress = 5;
  Allocator allocator(cluster, policy, {});
  const AllocatorRound round = allocator.round();
  REQUIRE(policy.seen.jobs.size() == 2);
  CHECK(!policy.seen.jobs[0].hints.remaining_progress);
  CHECK(policy.seen.jobs[1].hints.remaining_progress == 5);
  REQUIRE(round.problems.size() == 1);
  CHECK(round.problems[0].find("job bad: remaining_progress") == 0);
}

TEST_CASE("an impossible job keeps what it has, and its GPUs are not given to others") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("bad", {"a"}).max_replicas = -1;
  cluster.add("good");
  Allocator allocator(cluster, policy, {});
  const AllocatorRound round = allocator.round();
  REQUIRE(policy.seen.jobs.size() == 1);
  CHECK(policy.seen.nodes[0].capacity[0] == 1);
  CHECK(policy.seen.nodes[1].capacity[0] == 2);
  CHECK(round.problems.size() == 1);
  CHECK(cluster.calls.empty());
}

TEST_CASE("what a job holds that is not preemptible stays, whatever has become of it") {
  RecordingCluster cluster;
  const auto pin = [&](const std::string& name, std::vector<std::string> nodes) -> ClusterJob& {
    ClusterJob& job = cluster.add(name, std::move(nodes));
    job.preemptible = false;
    return job;
  };
  std::string why;
  SUBCASE("its bounds changed") {
    pin("pinned", {"a", "a"}).max_replicas = 1;
    why = "job pinned: 2 replicas; 0 to 1 are allowed; it keeps its allocation";
  }
  SUBCASE("its node has less than it had") {
    pin("pinned", {"a", "a"});
    cluster.nodes_[0].free_for_jobs["gpu"] = 1;
    why = "job pinned: node a has too little for its replicas there: gpu; it keeps its allocation";
  }
  SUBCASE("another one holds the same") {
    pin("first", {"a", "a"});
    pin("pinned", {"a"});
    why = "job pinned: node a has too little for its replicas there: gpu; it keeps its allocation";
  }
  SUBCASE("its nodes are of several kinds now") {
    pin("pinned", {"a", "b"});
    cluster.nodes_[0].accelerator = "other";
    why = "job pinned: its nodes have accelerators of several kinds; it keeps its allocation";
  }
  cluster.add("waits");
  for (const PolicyInfo& info : policies()) {
    CAPTURE(info.name);
    const std::unique_ptr<Policy> policy = make_policy(info.name);
    Allocator allocator(cluster, *policy, {});
    const AllocatorRound round = allocator.round();
    CHECK(round.problems == std::vector<std::string>{why});
    for (const std::string& call : cluster.calls) CHECK(call.find("pinned") == std::string::npos);
  }
}

TEST_CASE("an allocation that cannot be changes nothing") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("job");
  policy.answers = {{"job", {0, 0, 0}}};
  Allocator allocator(cluster, policy, {});
  const AllocatorRound round = allocator.round();
  CHECK(round.problems ==
        std::vector<std::string>{"node a: 3 of 2 gpu are allocated: the policy's answer is "
                                 "invalid; no allocation changes"});
  CHECK(cluster.calls.empty());
}

TEST_CASE("replicas on a node that is gone count as not allocated") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("job", {"a", "gone"});
  Allocator allocator(cluster, policy, {});
  allocator.round();
  CHECK(policy.seen.jobs[0].nodes.empty());
}

TEST_CASE("one refused call does not keep the others from theirs, and is tried again") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("first");
  cluster.add("second");
  cluster.refused = "first";
  policy.answers = {{"first", {0}}, {"second", {1}}};
  Allocator allocator(cluster, policy, {});
  const AllocatorRound round = allocator.round();
  CHECK(cluster.calls == std::vector<std::string>{"second:b"});
  REQUIRE(round.problems.size() == 1);
  CHECK(round.problems[0] == "job first: the API server says no");
  cluster.refused.clear();
  allocator.round();
  CHECK(cluster.calls.back() == "first:a");
}

TEST_CASE("the accelerator resource is counted first, cores where there is none") {
  std::vector<std::string> problems;
  ClusterJob job;
  job.name = "job";
  job.request = {{"cpu", 1000}, {"nvidia.com/gpu", 1}};
  const Snapshot with =
      policy_input({{"a", "", {{"cpu", 8000}, {"nvidia.com/gpu", 2}}}}, {job}, 0, problems);
  CHECK(with.resources[0] == "nvidia.com/gpu");
  CHECK(with.nodes[0].capacity == std::vector<int64_t>{2, 8000});
  job.request = {{"cpu", 1000}};
  const Snapshot without = policy_input({{"a", "", {{"cpu", 8000}}}}, {job}, 0, problems);
  CHECK(without.resources == std::vector<std::string>{"cpu"});
  CHECK(problems.empty());
}

TEST_CASE("accelerators of all vendors are counted, whole GPUs before their slices") {
  const auto counted = [](const Resources& of_node, const Resources& of_job = {{"cpu", 1000}}) {
    std::vector<std::string> problems;
    ClusterJob job;
    job.name = "job";
    job.request = of_job;
    return policy_input({{"a", "", of_node}}, {job}, 0, problems).resources[0];
  };
  for (const char* name : {"google.com/tpu", "habana.ai/gaudi", "nvidia.com/mig-1g.5gb",
                           "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"}) {
    CHECK(counted({{"cpu", 8000}, {name, 4}}) == name);
  }
  CHECK(counted({{"cpu", 8000}, {"gpu.intel.com/memory.max", 1 << 30}, {"other.com/nic", 2}}) ==
        "cpu");
  CHECK(counted({{"nvidia.com/gpu", 2}, {"nvidia.com/mig-1g.5gb", 7}}) == "nvidia.com/gpu");
  CHECK(counted({{"nvidia.com/gpu", 0}, {"nvidia.com/mig-1g.5gb", 7}}) == "nvidia.com/mig-1g.5gb");
  const Resources neuron = {{"aws.amazon.com/neuron", 1}, {"aws.amazon.com/neuroncore", 2}};
  CHECK(counted(neuron) == "aws.amazon.com/neuroncore");
  CHECK(counted(neuron, {{"aws.amazon.com/neuron", 1}}) == "aws.amazon.com/neuron");
}

// A taint or a label of GPU nodes has their name, and nodes have plenty of it.
TEST_CASE("conditions are not counted, whatever their names") {
  const std::string taint = "without:nvidia.com/gpu=present:NoSchedule",
                    label = "with:nvidia.com/gpu.product=A100";
  RecordingCluster cluster;
  cluster.nodes_ = {{"gpus", "", {{"nvidia.com/gpu", 8}, {label, 1'000'000}}},
                    {"system", "", {{"nvidia.com/gpu", 0}, {taint, 1'000'000}}}};
  cluster.add("old", std::vector<std::string>(8, "gpus"));
  cluster.add("new");
  cluster.time_s = 3600;
  for (ClusterJob& job : cluster.jobs_) {
    job.request = {{"nvidia.com/gpu", 1}, {label, 1}};
    job.hints.perf = PerfParams{0.1, 0.01, 0.05, 0.005, 0.02, 0.001, 2};
    job.hints.batch = BatchBounds{128, 1280, 32, 256, true};
    job.hints.max_profiled_replicas = 8;
  }
  std::vector<std::string> problems;
  const Snapshot snapshot = policy_input(cluster.nodes_, cluster.jobs_, 0, problems);
  CHECK(snapshot.resources[0] == "nvidia.com/gpu");
  CHECK(problems.empty());
  // So who holds all GPUs gives some of them up.
  for (const char* name : {"pollux", "sia"}) {
    CAPTURE(std::string(name));
    RecordingCluster tried = cluster;
    const std::unique_ptr<Policy> policy = make_policy(name);
    Allocator allocator(tried, *policy, {});
    allocator.round();
    CHECK(tried.jobs_[0].nodes.size() < 8);
    CHECK_FALSE(tried.jobs_[1].nodes.empty());
  }
}

TEST_CASE("a job whose first replica cannot move gives up another one") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("live", {"b", "a"}).anchored = true;
  cluster.add("new");
  policy.answers = {{"live", {0}}, {"new", {1, 1}}};
  Allocator allocator(cluster, policy, {});
  allocator.round();
  CHECK(cluster.calls == std::vector<std::string>{"live:b", "new:a,a"});
}

TEST_CASE("where a node has gone, a job goes on with the rest only if its first replica does") {
  RecordingCluster cluster;
  ScriptedPolicy policy;
  cluster.add("live", {"b", "gone"}).anchored = true;
  cluster.add("headless", {"gone", "b"}).anchored = true;
  cluster.add("stiff", {"a", "gone"});
  Allocator allocator(cluster, policy, {});
  allocator.round();
  CHECK(policy.seen.jobs[0].nodes == NodeList{1});
  CHECK(policy.seen.jobs[1].nodes.empty());
  CHECK(policy.seen.jobs[2].nodes.empty());
}

}  // namespace
}  // namespace adaptdl
