// Measures a whole round of the allocator on a large cluster, with resources as on Kubernetes, half
// of the jobs anchored, and a cluster that only stores what it is told. Prints one line of JSON for
// each size: the round's time, the policy's part of it, and what changed; and one for the time in
// which the operator makes its view of as many jobs, nodes and pods, which comes before each round.

#include <cstdio>
#include <map>

#include "core/cluster/kubernetes/scheduler_view.h"
#include "core/formats/json.h"
#include "core/sched/allocator.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"
#include "tests/unit/policy/large_snapshot.h"

using namespace adaptdl;

namespace {

constexpr double kNow = 1e6;  // s

class StoredCluster : public Cluster {
 public:
  explicit StoredCluster(const Snapshot& snapshot) {
    Draw draw(2);
    for (const NodeSnapshot& node : snapshot.nodes) {
      Resources free = {{"nvidia.com/gpu", node.capacity[0]},
                        {"cpu", node.capacity[0] * 12'000},
                        {"memory", node.capacity[0] << 36},
                        {"pods", 110},
                        {"without:dedicated=:NoSchedule", 1'000'000}};
      nodes_.push_back({node.name, node.accelerator, std::move(free)});
    }
    for (const JobSnapshot& job : snapshot.jobs) {
      ClusterJob seen;
      seen.name = job.name;
      seen.submitted_s = kNow - job.age_s;
      for (const int node : job.nodes) {
        seen.nodes.push_back(snapshot.nodes[static_cast<size_t>(node)].name);
      }
      seen.attained_service = job.attained_service;
      seen.restarts = job.restarts;
      seen.max_replicas = job.max_replicas;
      seen.requested_replicas = job.requested_replicas;
      seen.anchored = draw.chance(0.5);
      seen.request = {{"nvidia.com/gpu", 1},
                      {"cpu", 1000 * draw.integer(1, 12)},
                      {"memory", int64_t{draw.integer(1, 16)} << 32},
                      {"pods", 1},
                      {"without:dedicated=:NoSchedule", 1}};
      seen.hints = job.hints;
      index_[job.name] = jobs_.size();
      jobs_.push_back(std::move(seen));
    }
  }

  double now_s() override { return kNow; }
  std::vector<ClusterNode> nodes() override { return nodes_; }
  std::vector<ClusterJob> jobs() override { return jobs_; }
  void allocate(const std::string& job, const std::vector<std::string>& nodes,
                const std::string&) override {
    jobs_[index_.at(job)].nodes = nodes;
  }
  void explain(const std::string&, const std::string&) override {}

 private:
  std::vector<ClusterNode> nodes_;
  std::vector<ClusterJob> jobs_;
  std::map<std::string, size_t> index_;
};

void measure(const char* name, const LargeShape& shape) {
  StoredCluster cluster(large_snapshot(1, shape));
  const auto policy = make_policy("proportional");
  Allocator allocator(cluster, *policy, {});
  for (int round = 1; round <= 2; ++round) {
    const TimePoint started = Monotonic::now();
    const AllocatorRound result = allocator.round();
    const Json record = {{"name", "large_round"},
                         {"size", name},
                         {"round", round},
                         {"unit", "s"},
                         {"whole", seconds_since(started)},
                         {"policy", result.policy_s},
                         {"changes", result.changes}};
    std::printf("%s\n", dump_json(record).c_str());
    std::fflush(stdout);
  }
}

void measure_view(const char* name, const LargeShape& shape) {
  namespace k8s = kubernetes;
  const Snapshot snapshot = large_snapshot(1, shape);
  std::vector<k8s::NodeFacts> nodes;
  for (const NodeSnapshot& node : snapshot.nodes) {
    k8s::NodeFacts facts;
    facts.name = facts.hostname = node.name;
    facts.allocatable = {{"cpu", 96'000}, {"nvidia.com/gpu", 8}, {"memory", int64_t{8} << 36}};
    facts.ready = true;
    nodes.push_back(std::move(facts));
  }
  std::vector<k8s::PodUse> pods;
  std::vector<Json> objects;
  for (const JobSnapshot& job : snapshot.jobs) {
    Json allocation = Json::array();
    for (const int node : job.nodes) {
      allocation.push_back(snapshot.nodes[static_cast<size_t>(node)].name);
      pods.push_back({allocation.back(), true, {{"cpu", 500}, {"nvidia.com/gpu", 1}}});
    }
    objects.push_back(k8s::sample_job(
        {{"maxReplicas", job.max_replicas}},
        {{"phase", "Running"},
         {"allocation", std::move(allocation)},
         {"train", {{"initBatchSize", 128}, {"maxBatchSize", 4096}, {"maxProfiledReplicas", 4}}}}));
    objects.back()["metadata"]["name"] = job.name;
  }
  const TimePoint started = Monotonic::now();
  std::vector<k8s::JobObject> jobs;
  std::string problem;
  for (const Json& object : objects) jobs.push_back(k8s::read_job(object, problem));
  const double read_s = seconds_since(started);
  const auto view = k8s::scheduler_view(nodes, pods, jobs, k8s::PodSettings{}, 1.8e9, 0);
  const Json record = {{"name", "large_view"}, {"size", name},
                       {"unit", "s"},          {"whole", seconds_since(started)},
                       {"reading", read_s},    {"jobs", view.jobs.size()}};
  std::printf("%s\n", dump_json(record).c_str());
  std::fflush(stdout);
}

}  // namespace

int main() {
  measure("2000 jobs on 10000 GPUs", {2000, 1250});
  measure("20000 jobs on 100000 GPUs", {});
  measure_view("2000 jobs on 10000 GPUs", {2000, 1250});
  measure_view("20000 jobs on 100000 GPUs", {});
}
