#include "core/cluster/kubernetes/scheduler_view.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/base/clock.h"
#include "core/cluster/kubernetes/nodes/node_affinity.h"
#include "core/formats/json_fields.h"
#include "core/job/hints.h"
#include "core/sched/length_history.h"

namespace adaptdl::kubernetes {

namespace {

constexpr int64_t kPlenty = 1'000'000;
constexpr int64_t kMostHeld = int64_t{1} << 60;  // of a resource on a node
constexpr double kLiveCost = 5;                  // s; until the job has measured it
// s that pods take to start, until this job's have shown it, and at most; s that their programs
// then take to load what they need, which nothing shows.
constexpr double kPodsStart = 20, kLongestStart = 600, kLoad = 10;
constexpr int kUnbounded = 1'000'000;
constexpr const char* kHostname = "kubernetes.io/hostname";

std::string taint_name(const Json& taint) {
  return fmt::format("without:{}={}:{}", text_at(taint, "key"), text_at(taint, "value"),
                     text_at(taint, "effect"));
}

std::string label_name(const std::string& key, const std::string& value) {
  return fmt::format("with:{}={}", key, value);
}

const Json& pod_spec(const JobObject& job) {
  return object_at(*job.pod_template, "spec");
}

// A replica's pod spec, with what the installation adds: defaults, patches, a toleration. If no pod
// can be made of the template (the controller reports that), the template's spec itself.
Json spec_of_pod(const JobObject& job, const PodSettings& settings) {
  try {
    Json spec = make_pod(job, job.status, {}, {}, settings)["spec"];
    // make_pod() selects a certain node, but the node is not chosen yet: use the template's
    // selector.
    const auto made = node_selector(spec), wanted = node_selector(pod_spec(job));
    if (const auto found = made.find(kHostname); found != made.end() && found->second.empty()) {
      spec["nodeSelector"].erase(kHostname);
      if (const auto own = wanted.find(kHostname); own != wanted.end()) {
        spec["nodeSelector"][kHostname] = own->second;
      }
    }
    return spec;
  } catch (const Error&) {
    return pod_spec(job);
  }
}

// By the first container: its image, command and arguments.
JobLikeness likeness_of(const JobObject& job) {
  const Json& container = first_container(job);
  const Json run = Json::array({member(container, "command"), member(container, "args")});
  return {
      fmt::format("{}/{} {}", job.job_namespace, name_stem(job.name), text_at(container, "image")),
      dump_json(run)};
}

LengthHistory history_of(const std::vector<JobObject>& jobs) {
  std::vector<const JobObject*> ended;
  for (const JobObject& job : jobs) {
    if (job.status.phase == "Succeeded" && job.status.attained_service > 0) ended.push_back(&job);
  }
  std::stable_sort(ended.begin(), ended.end(), [](const JobObject* a, const JobObject* b) {
    return a->status.completed_s < b->status.completed_s;
  });
  LengthHistory history;
  const size_t old = ended.size() - std::min(ended.size(), LengthHistory::kMost);
  for (size_t i = old; i < ended.size(); ++i) {
    history.add(likeness_of(*ended[i]), ended[i]->status.attained_service);
  }
  return history;
}

bool schedulable(const JobObject& job) {
  return !job.status.ended() && !job.deleting && !job.suspended &&
         pod_spec(job).contains("containers");
}

JobPhase phase_named(const std::string& name) {
  for (const JobPhase phase : {JobPhase::starting, JobPhase::running, JobPhase::stopping}) {
    if (phase_name(phase) == name) return phase;
  }
  return JobPhase::pending;
}

// Seconds that the pods of the job's present group took to start; of the launcher's, if it rescales
// live.
std::optional<double> pods_start_s(const JobStatus& status) {
  if (!status.group_started_s) return std::nullopt;
  for (const JobCondition& condition : status.conditions) {
    if (condition.type != "Ready" || !condition.is) continue;
    const auto since = parse_rfc3339_s(condition.since);
    if (!since) continue;
    return std::clamp(*since - *status.group_started_s, 0.0, kLongestStart);
  }
  return std::nullopt;
}

ClusterJob cluster_job(const JobObject& job, const Json& spec, double wall_s, double now_s) {
  ClusterJob seen;
  seen.name = job.id();
  seen.submitted_s = now_s - std::max(0.0, wall_s - job.created_s);
  seen.phase = phase_named(job.status.phase);
  seen.nodes = job.status.allocation;
  seen.attained_service = job.status.attained_service;
  if (job.status.held_since_s && job.status.replicas > 0) {
    seen.attained_service +=
        service_rate(job) * job.status.replicas * std::max(0.0, wall_s - *job.status.held_since_s);
  }
  seen.restarts = job.status.rescales;
  seen.min_replicas = job.min_replicas;
  seen.max_replicas = job.max_replicas.value_or(kUnbounded);
  seen.requested_replicas = job.requested_replicas.value_or(std::max(1, job.min_replicas));
  seen.preemptible = job.preemptible;
  seen.restartable = job.can_restart();
  seen.anchored = job.live;  // to the launcher's node
  seen.request = pod_request(spec);
  if (!job.status.train.is_null()) {
    try {
      std::vector<std::string> ignored;
      seen.hints = job_hints(hints_from_json(job.status.train, job.id(), ignored));
    } catch (const Error&) {  // another program wrote them; the job is scheduled without hints
    }
  }
  // What a live job measures is only the pause of the replicas that train.
  if (job.live) {
    if (!seen.hints.rescale_cost_s) seen.hints.rescale_cost_s = kLiveCost;
    seen.hints.start_cost_s = pods_start_s(job.status).value_or(kPodsStart) + kLoad;
  }
  return seen;
}

// Whether the node meets all conditions of the job; it may still lack room.
bool meets_conditions(const ClusterNode& node, const ClusterJob& job) {
  return std::all_of(job.request.begin(), job.request.end(), [&](const auto& amount) {
    return !is_condition(amount.first) || node.free_for_jobs.contains(amount.first);
  });
}

void add_refusals(SchedulerView& view, const NodeRefusals& refusals) {
  for (ClusterJob& job : view.jobs) {
    const auto found = refusals.find(job.name);
    if (found == refusals.end()) continue;
    std::map<std::string, int> took = found->second;
    std::vector<std::string> nodes;
    for (auto& [node, some] : took) {
      nodes.push_back(node);
      // It keeps those that it has.
      some = std::max(some, static_cast<int>(std::ranges::count(job.nodes, node)));
    }
    const auto takes = [&](const ClusterNode& node) {
      const auto refused = took.find(node.name);
      return refused == took.end() ? kPlenty : refused->second;
    };
    const bool others = std::ranges::any_of(view.nodes, [&](const ClusterNode& node) {
      return takes(node) > 0 && meets_conditions(node, job);
    });
    if (took.empty() || !others) continue;
    const std::string name = fmt::format("refused:{}:{}", job.name, fmt::join(nodes, ","));
    job.request[name] = 1;
    for (ClusterNode& node : view.nodes) {
      if (const int64_t some = takes(node); some > 0) node.free_for_jobs[name] = some;
    }
  }
}

void hold(Resources& held, const std::string& name, int64_t amount) {
  int64_t& sum = held[name];
  sum += std::min(amount, kMostHeld - sum);
}

// See the header. `nodes`: as the cluster reports them.
void keep_lost_devices(SchedulerView& view, const std::vector<NodeFacts>& nodes) {
  std::map<std::string_view, const Resources*> reported;  // by node
  for (const NodeFacts& node : nodes) {
    if (node.takes_pods()) reported[node.name] = &node.allocatable;
  }
  std::map<std::string, Resources> held;  // by node
  for (ClusterJob& job : view.jobs) {
    if (job.phase != JobPhase::running) continue;
    for (const std::string& node : job.nodes) {
      const auto found = reported.find(node);
      if (found == reported.end()) continue;
      for (const auto& [name, amount] : job.request) {
        const auto has = found->second->find(name);
        if (amount <= 0 || has == found->second->end() || has->second > 0) continue;
        hold(held[node], name, amount);
        job.preemptible = false;
      }
    }
  }
  for (ClusterNode& node : view.nodes) {
    const auto found = held.find(node.name);
    if (found == held.end()) continue;
    for (const auto& [name, amount] : found->second) node.free_for_jobs[name] = amount;
  }
}

// See the header.
void keep_nodes_in_use(SchedulerView& view, const std::vector<NodeFacts>& nodes) {
  std::map<std::string_view, Resources> used;  // by node
  for (const ClusterJob& job : view.jobs) {
    if (job.preemptible || job.phase != JobPhase::running) continue;
    for (const std::string& node : job.nodes) {
      for (const auto& [name, amount] : job.request) {
        hold(used[node], name, amount);
      }
    }
  }
  for (const NodeFacts& node : nodes) {
    if (node.takes_pods()) continue;
    const auto found = used.find(node.name);
    if (found != used.end()) view.nodes.push_back({node.name, node.accelerator, found->second});
  }
}

}  // namespace

double service_rate(const JobObject& job) {
  std::optional<int64_t> least;
  for (const auto& [name, amount] : pod_request(pod_spec(job))) {
    if (amount > 0 && is_accelerator(name)) least = std::min(amount, least.value_or(amount));
  }
  return static_cast<double>(least.value_or(1));
}

SchedulerView scheduler_view(const std::vector<NodeFacts>& nodes, const std::vector<PodUse>& pods,
                             const std::vector<JobObject>& jobs, const PodSettings& settings,
                             double wall_s, double now_s, const NodeRefusals& refusals,
                             const ReplicaBounds& bounds) {
  std::map<std::string, Json> taints;  // by the resource's name
  std::map<std::string, std::function<bool(const NodeFacts&)>> conditions;  // of jobs
  for (const NodeFacts& node : nodes) {
    if (!node.takes_pods()) continue;
    for (const Json& taint : node.taints) taints.emplace(taint_name(taint), taint);
  }
  const LengthHistory history = history_of(jobs);
  SchedulerView view;
  for (const JobObject& job : jobs) {
    if (!schedulable(job)) continue;
    const auto bound = bounds.find(job.id());
    const int most = bound == bounds.end() ? kUnbounded : bound->second;
    if (most == 0 && job.status.allocation.empty()) continue;
    const Json spec = spec_of_pod(job, settings);
    ClusterJob seen = cluster_job(job, spec, wall_s, now_s);
    if (most > 0) {
      seen.max_replicas = std::min(seen.max_replicas, std::max(most, seen.min_replicas));
    }
    if (!history.empty()) seen.length_rank = history.rank(likeness_of(job), seen.attained_service);
    for (const auto& [name, taint] : taints) {
      if (!tolerates(spec, Json::array({taint}))) seen.request[name] = 1;
    }
    const auto demand = [&](const std::string& name, const auto& is_met) {
      seen.request[name] = 1;
      if (!conditions.contains(name)) conditions[name] = is_met;
    };
    for (const auto& [key, value] : node_selector(spec)) {
      demand(label_name(key, value), [key = key, value = value](const NodeFacts& node) {
        const auto found = node.labels.find(key);
        return found != node.labels.end() && found->second == value;
      });
    }
    if (const Json& required = required_affinity(spec); !required.is_null()) {
      demand("affinity:" + affinity_text(required),
             [required](const NodeFacts& node) { return meets_affinity(required, node); });
    }
    if (!job.accelerators.empty()) {
      demand(fmt::format("accelerators:{}", fmt::join(job.accelerators, ",")),
             [&kinds = job.accelerators](const NodeFacts& node) {
               return among(kinds, node.accelerator);
             });
    }
    view.jobs.push_back(std::move(seen));
  }
  std::stable_sort(view.jobs.begin(), view.jobs.end(),
                   [](const ClusterJob& a, const ClusterJob& b) {
                     return std::tie(a.submitted_s, a.name) < std::tie(b.submitted_s, b.name);
                   });

  std::map<std::string, size_t> places;
  for (const NodeFacts& node : nodes) {
    if (!node.takes_pods()) continue;
    ClusterNode seen{node.name, node.accelerator, node.allocatable};
    std::set<std::string> own;
    for (const Json& taint : node.taints) own.insert(taint_name(taint));
    for (const auto& [name, taint] : taints) {
      if (!own.contains(name)) seen.free_for_jobs[name] = kPlenty;
    }
    for (const auto& [name, is_met] : conditions) {
      if (is_met(node)) seen.free_for_jobs[name] = kPlenty;
    }
    places[node.name] = view.nodes.size();
    view.nodes.push_back(std::move(seen));
  }
  for (const PodUse& pod : pods) {
    const auto place = places.find(pod.node);
    if (place == places.end() || pod.movable) continue;
    Resources& free = view.nodes[place->second].free_for_jobs;
    for (const auto& [name, amount] : pod.request) {
      const auto found = free.find(name);
      if (found != free.end()) found->second = std::max<int64_t>(0, found->second - amount);
    }
  }
  keep_lost_devices(view, nodes);
  keep_nodes_in_use(view, nodes);
  add_refusals(view, refusals);
  return view;
}

}  // namespace adaptdl::kubernetes
