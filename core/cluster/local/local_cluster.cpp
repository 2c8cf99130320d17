#include "core/cluster/local/local_cluster.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace adaptdl::local {

namespace {

constexpr double kLiveRescaleCost = 1;  // s; until the job has measured it
constexpr int64_t kMany = 1 << 20;      // of a condition that a node meets

// The condition that slots are of another kind.
std::string other_than(const std::string& kind) {
  return "other-than:" + kind;
}

void subtract(Resources& from, const Resources& used) {
  for (const auto& [resource, amount] : used) {
    from[resource] = std::max<int64_t>(0, from[resource] - amount);
  }
}

bool restartable(const ActiveJob& job) {
  return job.spec.restartable.value_or(job.restartable);
}

}  // namespace

void LocalCluster::fit_jobs() {
  int left = slots_.count();
  for (auto& [name, job] : jobs_.all()) {
    if (!job.state.live) continue;
    left -= static_cast<int>(slots_.held_by(name).size());
    if (!machine_.has_kinds()) continue;
    fit_to_slots(job.state);
    job.record.replicas = job.state.wanted;
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
      // On which kind of slots is not stored: the first round decides.
      const bool fits = slots <= left && !machine_.has_kinds();
      if (slots > 0 && (job.record.reason == kUnschedulable || !fits)) {
        job.state.wanted = job.record.replicas = 0;
        changed = true;
      } else {
        left -= static_cast<int>(slots);
      }
    }
    if (changed) jobs_.save(job);
  }
}

// The job goes on with what it has, also if its slots have come to be of several kinds.
void LocalCluster::fit_to_slots(JobState& job) const {
  int most = 0;
  job.kind = 0;
  for (int kind = 0; kind < static_cast<int>(nodes_.size()); ++kind) {
    const int held = static_cast<int>(slots_.of_kind(job.granted, kind).size());
    if (held > most) job.kind = kind;
    most = std::max(most, held);
  }
  const bool mixed = most < static_cast<int>(job.granted.size());
  const int has = (mixed ? static_cast<int>(job.granted.size()) : most) / job.slots_per_replica;
  if (most >= job.wanted * job.slots_per_replica || has == 0) return;
  job.wanted = std::min(job.wanted, has);
  if (mixed) job.kind = kAnyKind;
}

// What jobs take of what slots of all kinds share: all but `without`, on all nodes but `except`.
Resources LocalCluster::shared_use(const ActiveJob* without, std::string_view except) const {
  Resources use;
  for (const auto& [name, job] : jobs_.all()) {
    if (&job == without || job.record.ended()) continue;
    const std::vector<std::string> nodes = nodes_of_job(job);
    const auto replicas = std::count_if(nodes.begin(), nodes.end(),
                                        [&](const std::string& node) { return node != except; });
    for (const auto& [resource, amount] : request_of(machine_, job.spec)) {
      if (resource == "memory" || (resource == "cpu" && machine_.gpus)) {
        use[resource] += amount * replicas;
      }
    }
  }
  return use;
}

// Jobs of which the scheduler is told nothing (jobs()) keep their slots until they end.
void LocalCluster::take_held(std::vector<ClusterNode>& nodes) const {
  for (const auto& [name, job] : jobs_.all()) {
    if (!job.state.live || shortage(machine_, job.spec, job.record.min_replicas).empty()) continue;
    for (size_t kind = 0; kind < nodes.size(); ++kind) {
      const auto held = slots_.of_kind(job.state.granted, static_cast<int>(kind)).size();
      subtract(nodes[kind].free_for_jobs, slot_resources(machine_, static_cast<int>(held)));
    }
  }
}

// Not where its user does not want it, nor where it could not start. And a command that would begin
// again on another kind stays on its own.
bool LocalCluster::may_use(const ActiveJob& job, int kind) const {
  const JobState& state = job.state;
  const bool loses = state.restarts && !restartable(job) && !job.hints.perf;
  if (state.live && loses && state.kind != kAnyKind) return state.kind == kind;
  return machine_.may_use(job.spec, kind) && !job.unfit_kinds.contains(kind);
}

std::vector<std::string> LocalCluster::nodes_of_job(const ActiveJob& job) const {
  const JobState& state = job.state;
  std::vector<std::string> nodes;
  for (int i = 0; i < state.wanted; ++i) {
    const auto first = static_cast<size_t>(i) * static_cast<size_t>(state.slots_per_replica);
    const int kind = state.kind != kAnyKind ? state.kind : slots_.kind_of(state.granted.at(first));
    nodes.push_back(nodes_.at(static_cast<size_t>(kind)).name);
  }
  return nodes;
}

double LocalCluster::now_s() {
  return monotonic_now_s();
}

std::vector<ClusterNode> LocalCluster::nodes() {
  std::vector<ClusterNode> nodes = nodes_;
  take_held(nodes);
  if (!machine_.has_kinds()) return nodes;
  for (ClusterNode& node : nodes) {
    Resources& free = node.free_for_jobs;
    subtract(free, shared_use(nullptr, node.name));
    for (const ClusterNode& other : nodes_) {
      if (other.name != node.name) free[other_than(other.name)] = kMany;
    }
  }
  return nodes;
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
    seen.nodes = nodes_of_job(job);
    seen.attained_service = job.record.service_s;
    seen.restarts = job.record.restarts;
    seen.min_replicas = job.record.min_replicas;
    seen.max_replicas = job.record.max_replicas;
    seen.requested_replicas =
        job.spec.requested_replicas.value_or(std::max(1, job.record.min_replicas));
    seen.preemptible = job.spec.preemptible;
    seen.restartable = restartable(job);
    seen.request = request_of(machine_, job.spec);
    for (size_t kind = 0; kind < nodes_.size(); ++kind) {
      if (may_use(job, static_cast<int>(kind))) continue;
      seen.request[other_than(nodes_[kind].name)] = 1;
    }
    if (job.state.finished && job.state.wanted > 0) {  // it cannot be scaled any more
      seen.preemptible = false;
      seen.min_replicas = seen.max_replicas = seen.requested_replicas = job.state.wanted;
    }
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
  std::string on;
  int kind = job.state.kind;
  if (!nodes.empty() && machine_.has_kinds()) {
    kind = kind_named(nodes.front());
    const ClusterNode& node = nodes_.at(static_cast<size_t>(kind));
    on = " on " + node.name;
    // In one round jobs may have grown on several kinds; the next one knows what is left.
    for (const auto& [resource, amount] : shared_use(&job, "")) {
      const int64_t mine = request_of(machine_, job.spec)[resource] * after;
      if (after > before && mine + amount > node.free_for_jobs.at(resource)) {
        fail("jobs on other slots take the {} that it would need", resource);
      }
    }
  }
  job.state.kind = kind;
  job.state.wanted = after;
  job.record.replicas = after;
  job.record.why = why;
  if (job.record.started_s) ++job.record.restarts;
  jobs_.note(job, "Scheduled", fmt::format("replicas {} -> {}{}: {}", before, after, on, why));
  jobs_.save(job);
}

int LocalCluster::kind_named(std::string_view node) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const ClusterNode& each) { return each.name == node; });
  ADAPTDL_CHECK(found != nodes_.end());
  return static_cast<int>(found - nodes_.begin());
}

void LocalCluster::explain(const std::string& name, const std::string& why) {
  ActiveJob& job = jobs_.all().at(name);
  job.record.why = why;
  jobs_.save(job);
}

}  // namespace adaptdl::local
