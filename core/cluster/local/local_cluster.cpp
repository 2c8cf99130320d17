#include "core/cluster/local/local_cluster.h"

#include <algorithm>
#include <utility>

namespace adaptdl::local {

namespace {

constexpr double kLiveRescaleCost = 1;  // s; until the job has measured it

}  // namespace

void LocalCluster::fit_jobs() {
  int left = slots_.count();
  for (const auto& [name, job] : jobs_.all()) {
    if (job.state.live) left -= static_cast<int>(slots_.held_by(name).size());
  }
  for (auto& [name, job] : jobs_.all()) {
    if (job.record.ended()) continue;
    bool changed = false;
    // An earlier version stored this maximum when even the minimum did not fit.
    if (job.record.max_replicas < std::max(1, job.record.min_replicas)) {
      job.record.max_replicas = most_replicas(job, machine_);
      changed = true;
    }
    if (!job.state.live) {
      changed = note_shortage(job, machine_) || changed;
      const int64_t slots = int64_t{job.state.wanted} * job.state.slots_per_replica;
      if (slots > 0 && (job.record.reason == kUnschedulable || slots > left)) {
        job.state.wanted = job.record.replicas = 0;
        changed = true;
      } else {
        left -= static_cast<int>(slots);
      }
    }
    if (changed) jobs_.save(job);
  }
}

double LocalCluster::now_s() {
  return monotonic_now_s();
}

std::vector<ClusterNode> LocalCluster::nodes() {
  return {node_of(machine_)};
}

std::vector<ClusterJob> LocalCluster::jobs() {
  std::vector<ClusterJob> result;
  const double wall = wall_now_s(), now = now_s();
  for (auto& [name, job] : jobs_.all()) {
    if (job.record.ended() || job.record.suspended || job.state.cancelled) continue;
    if (!shortage(machine_, job.spec, job.record.min_replicas).empty()) continue;
    count_service(job, slots_.held_by(name).size());
    ClusterJob seen;
    seen.name = name;
    seen.submitted_s = now - std::max(0.0, wall - job.record.submitted_s);
    seen.phase = phase_of(facts_of(job));
    seen.nodes.assign(static_cast<size_t>(job.state.wanted), machine_.name);
    seen.attained_service = job.record.service_s;
    seen.restarts = job.record.restarts;
    seen.min_replicas = job.record.min_replicas;
    seen.max_replicas = job.record.max_replicas;
    seen.requested_replicas =
        job.spec.requested_replicas.value_or(std::max(1, job.record.min_replicas));
    seen.preemptible = job.spec.preemptible;
    seen.restartable = job.spec.restartable.value_or(job.restartable);
    seen.request = request_of(machine_, job.spec);
    seen.length_rank = jobs_.length_rank(job);
    seen.hints = job.hints;
    // A command restarts to rescale: its rescale cost includes its start (see take_hints()).
    if (job.spec.kind != JobSpec::Kind::command) {
      if (!seen.hints.rescale_cost_s) seen.hints.rescale_cost_s = kLiveRescaleCost;
      seen.hints.start_cost_s = job.start_s;
    }
    result.push_back(std::move(seen));
  }
  std::stable_sort(result.begin(), result.end(), [](const ClusterJob& a, const ClusterJob& b) {
    return a.submitted_s < b.submitted_s;
  });
  return result;
}

void LocalCluster::allocate(const std::string& name, const std::vector<std::string>& nodes,
                            const std::string& why) {
  ActiveJob& job = jobs_.all().at(name);
  const int before = job.state.wanted, after = static_cast<int>(nodes.size());
  job.state.wanted = after;
  job.record.replicas = after;
  job.record.why = why;
  if (job.record.started_s) ++job.record.restarts;
  jobs_.note(job, "Scheduled", fmt::format("replicas {} -> {}: {}", before, after, why));
  jobs_.save(job);
}

void LocalCluster::explain(const std::string& name, const std::string& why) {
  ActiveJob& job = jobs_.all().at(name);
  job.record.why = why;
  jobs_.save(job);
}

}  // namespace adaptdl::local
