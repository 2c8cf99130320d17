// Measures a whole round of the allocator on a large cluster, with resources as on Kubernetes, half
// of the jobs anchored, and a cluster that only stores what it is told. Prints one line of JSON for
// each size: the round's time, the policy's part of it, and what changed.

#include <cstdio>
#include <map>

#include "core/formats/json.h"
#include "core/sched/allocator.h"
#include "tests/unit/policy/large_snapshot.h"

using namespace adaptdl;

namespace {

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
      seen.submitted_s = now_s() - job.age_s;
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

  double now_s() override { return 1e6; }
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

}  // namespace

int main() {
  measure("2000 jobs on 10000 GPUs", {2000, 1250});
  measure("20000 jobs on 100000 GPUs", {});
}
