#include "core/sched/allocator.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/policy/feasibility.h"
#include "core/sched/anchors.h"
#include "core/sched/policy_input.h"

namespace adaptdl {
namespace {

constexpr std::string_view kCutShort = "; the search timed out, so a better allocation may exist";

using JobsByName = std::map<std::string_view, const ClusterJob*>;

// A job whose anchor's node is lost has no nodes in the snapshot.
std::vector<Anchor> anchors_of(const Snapshot& snapshot, const JobsByName& jobs) {
  std::vector<Anchor> anchors;
  for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
    const JobSnapshot& job = snapshot.jobs[j];
    if (!jobs.at(job.name)->anchored || job.nodes.empty()) continue;
    anchors.push_back({static_cast<int>(j), job.nodes.front()});
  }
  return anchors;
}

}  // namespace

Allocator::Allocator(Cluster& cluster, Policy& policy, const AllocatorOptions& options)
    : cluster_(cluster), policy_(policy), options_(options), due_s_(cluster.now_s()) {
  if (!(options.interval_s > 0)) fail("the allocation interval must be above 0 s");
}

void Allocator::something_happened(double time_s) {
  due_s_ = std::min(due_s_, std::max(time_s, last_s_ + options_.event_gap_s));
}

AllocatorRound Allocator::round() {
  AllocatorRound result;
  result.time_s = cluster_.now_s();
  last_s_ = result.time_s;
  due_s_ = result.time_s + options_.interval_s;
  const std::vector<ClusterJob> jobs = cluster_.jobs();
  const Snapshot snapshot = policy_input(cluster_.nodes(), jobs, result.time_s, result.problems);
  result.jobs = static_cast<int>(snapshot.jobs.size());
  JobsByName present;
  for (const ClusterJob& job : jobs) present.emplace(job.name, &job);

  const TimePoint started = Monotonic::now();
  SearchBudget budget{.work = options_.work};
  if (options_.policy_limit_s) {
    budget.deadline = started + std::chrono::duration_cast<Monotonic::duration>(
                                    Seconds(*options_.policy_limit_s));
  }
  const Decision decision = policy_.decide(snapshot, options_.seed, budget);
  result.policy_s = seconds_since(started);
  result.cut_short = decision.cut_short;
  const std::string_view cut = decision.cut_short ? kCutShort : "";

  std::vector<NodeList> allocation;
  for (const JobDecision& job : decision.jobs) allocation.push_back(job.nodes);
  if (const auto broken = broken_rule(snapshot, allocation, false)) {
    // A defect of the policy, which would repeat in every round. The running jobs continue.
    result.problems.push_back(
        fmt::format("{}: the policy's answer is invalid; no allocation changes", *broken));
    return result;
  }
  keep_anchors(snapshot, anchors_of(snapshot, present), allocation);

  // Shrink and stop jobs first, so that the GPUs are free for the jobs that grow.
  for (const bool giving : {false, true}) {
    for (size_t j = 0; j < allocation.size(); ++j) {
      const JobSnapshot& job = snapshot.jobs[j];
      const std::string why = fmt::format("{}{}", decision.jobs[j].why, cut);
      std::vector<std::string> nodes;
      for (const int node : allocation[j]) {
        nodes.push_back(snapshot.nodes[static_cast<size_t>(node)].name);
      }
      const std::vector<std::string>& before = present.at(job.name)->nodes;
      if (giving != (nodes.size() > before.size())) continue;
      try {
        if (nodes != before) {
          ++result.changes;
          cluster_.allocate(job.name, nodes, why);
        } else if (reasons_[job.name] != why) {
          cluster_.explain(job.name, why);
        }
        reasons_[job.name] = why;
      } catch (const Error& error) {
        result.problems.push_back(fmt::format("job {}: {}", job.name, error.what()));
      }
    }
  }
  std::erase_if(reasons_, [&](const auto& reason) { return !present.contains(reason.first); });
  return result;
}

}  // namespace adaptdl
