#include "core/sim/sim_cluster.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl {
namespace {

using Kind = TimelineEvent::Kind;

constexpr double kMeasuredRescale = 1;       // seconds of a live rescale, if the profile has none
constexpr int64_t kMany = int64_t{1} << 40;  // of a condition

// The condition that a node is of a kind on which the application runs.
std::string condition_of(const std::string& application) {
  return "profile:" + application;
}

}  // namespace

SimCluster::SimCluster(std::vector<ClusterNode> nodes, const std::vector<WorkloadJob>& workload,
                       const std::map<std::string, Profile>& profiles,
                       const SimClusterOptions& options)
    : options_(options) {
  for (ClusterNode& node : nodes) {
    node_index_[node.name] = nodes_.size();
    nodes_.push_back({std::move(node)});
  }
  for (const WorkloadJob& spec : workload) {
    const auto profile = profiles.find(spec.application);
    if (profile == profiles.end()) {
      fail("job {}: application {} has no profile", spec.name, spec.application);
    }
    const bool adapts = options.adapt_batch && !spec.silent;
    jobs_.push_back({spec, SimJob(profile->second, adapts ? 0 : spec.batch_size)});
    restrict_to_kinds(profile->second);
  }
  std::stable_sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) {
    return a.spec.submitted_s < b.spec.submitted_s;
  });
  for (size_t j = 0; j < jobs_.size(); ++j) index_[jobs_[j].spec.name] = j;
  unfinished_ = jobs_.size();
}

// Gives nodes the condition of an application that does not run on all of them.
void SimCluster::restrict_to_kinds(const Profile& profile) {
  const auto runs_on = [&](const Node& node) { return profile.runs_on(node.node.accelerator); };
  if (std::all_of(nodes_.begin(), nodes_.end(), runs_on)) return;
  if (std::none_of(nodes_.begin(), nodes_.end(), runs_on)) {
    fail("application {} was measured on {} only, and the cluster has no such node",
         profile.application(), fmt::join(profile.kinds(), ", "));
  }
  for (Node& node : nodes_) {
    if (runs_on(node)) node.node.free_for_jobs[condition_of(profile.application())] = kMany;
  }
  restricted_.insert(profile.application());
}

Resources SimCluster::request_of(const Job& job) const {
  Resources request = {{"gpu", 1}};
  const std::string& application = job.spec.application;
  if (restricted_.contains(application)) request[condition_of(application)] = 1;
  return request;
}

std::vector<ClusterNode> SimCluster::nodes() {
  std::vector<ClusterNode> result;
  for (const Node& node : nodes_) {
    if (node.available()) result.push_back(node.node);
  }
  return result;
}

std::vector<ClusterJob> SimCluster::jobs() {
  std::vector<ClusterJob> result;
  for (Job& job : jobs_) {
    if (!job.visible || job.completed_s >= 0) continue;
    const int training = job.state.rescaling() ? 0 : job.state.replicas();
    ClusterJob view;
    view.name = job.spec.name;
    view.submitted_s = job.spec.submitted_s;
    view.phase = phase_of(
        {.allocated = job.state.replicas(), .present = job.state.replicas(), .training = training});
    view.nodes = job.nodes;
    view.attained_service = job.state.attained_service();
    view.restarts = job.restarts;
    view.min_replicas = job.spec.min_replicas;
    view.max_replicas = std::min(job.spec.max_replicas, job.state.profile().max_replicas());
    view.requested_replicas = job.spec.replicas;
    view.requested_batch = job.spec.batch_size;
    view.preemptible = job.spec.preemptible;
    view.restartable = job.spec.restartable;
    view.settling = options_.rules.finish_changes && job.state.rescaling();
    view.request = request_of(job);
    view.length_rank = history_.rank({job.spec.application, ""}, job.state.attained_service());
    view.hints = job.reported;
    if (distort) distort(view);
    result.push_back(std::move(view));
  }
  return result;
}

void SimCluster::allocate(const std::string& name, const std::vector<std::string>& nodes,
                          const std::string& why) {
  Job& job = jobs_[find_job(name)];
  if (!job.visible || job.completed_s >= 0)
    fail("job {} has not been submitted or has finished", name);
  if (job.nodes == nodes) return;
  std::vector<int> indices;
  for (const std::string& node : nodes) {
    const size_t index = find_node(node);
    if (!nodes_[index].available()) fail("job {}: node {} is lost or under notice", name, node);
    indices.push_back(static_cast<int>(index));
  }
  job.nodes = nodes;
  job.why = why;
  const Profile& profile = job.state.profile();
  const std::string before = job.accelerator;
  if (!indices.empty()) {
    job.accelerator = nodes_[static_cast<size_t>(indices[0])].node.accelerator;
  }
  const Placement placement = placement_of(indices);
  if (options_.rules.same_shape_free && job.accelerator == before && !placement.empty() &&
      placement == job.state.gpus_per_node()) {
    job.state.move(indices);
    tell(Kind::allocate, name, &job);
    return;
  }
  job.state.place(indices, rescale_cost_s(job), start_cost_s(job).value_or(0),
                  profile.measured_kind(job.accelerator));
  if (!nodes.empty()) {
    if (job.started_s < 0) {
      job.started_s = now_s_;
    } else {
      ++job.restarts;
    }
  }
  tell(Kind::allocate, name, &job);
}

void SimCluster::explain(const std::string& name, const std::string& why) {
  Job& job = jobs_[find_job(name)];
  job.why = why;
  tell(Kind::explain, name, &job);
}

bool SimCluster::advance_to(double time_s) {
  ADAPTDL_CHECK(time_s >= now_s_);
  const double seconds = time_s - now_s_;
  const std::vector<double> slowed = interference();
  bool changed = false;
  const double began_s = now_s_;
  now_s_ = time_s;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    Job& job = jobs_[j];
    if (!job.visible) {
      if (job.spec.submitted_s > time_s) break;  // the jobs are sorted by submission
      job.visible = changed = true;
      if (options_.rules.speeds_known) report_speeds(job);
      ++present_;
      tell(Kind::submit, job.spec.name, &job);
      continue;
    }
    if (job.completed_s >= 0) continue;
    const BatchChoice before = job.state.batch();
    const double clock = job.state.finished_after(), held = job.state.attained_service();
    job.state.advance(seconds, slowed[j]);
    job.gpu_s_by_kind[job.accelerator] += job.state.attained_service() - held;
    if (job.state.finished()) {
      job.completed_s = began_s + (job.state.finished_after() - clock);
      history_.add({job.spec.application, ""}, job.state.attained_service());
      job.nodes.clear();
      job.state.place({}, 0);
      --unfinished_;
      --present_;
      changed = true;
      tell(Kind::finish, job.spec.name, &job);
      continue;
    }
    const BatchChoice& now = job.state.batch();
    const bool other = now.atomic != before.atomic || now.accum_steps != before.accum_steps;
    if (other) tell(Kind::batch, job.spec.name, &job);
    if (job.state.replicas() > 0 && report_hints(job)) changed = true;
  }
  return changed;
}

double SimCluster::next_submission_s() const {
  for (const Job& job : jobs_) {
    if (!job.visible) return job.spec.submitted_s;
  }
  return std::numeric_limits<double>::infinity();
}

const SimCluster::Job& SimCluster::job(const std::string& name) const {
  return jobs_[find_job(name)];
}

double SimCluster::rescale_cost_s(const Job& job) const {
  if (job.spec.restart_s) return *job.spec.restart_s;
  if (options_.rescale_s >= 0) return options_.rescale_s;
  return job.state.profile().rescale_s().value_or(kMeasuredRescale);
}

std::optional<double> SimCluster::start_cost_s(const Job& job) const {
  if (job.spec.restart_s) return std::nullopt;  // it contains the start
  return options_.rescale_s >= 0 ? std::nullopt : job.state.profile().start_s();
}

void SimCluster::lose_node(const std::string& name) {
  Node& node = nodes_[find_node(name)];
  if (node.lost) return;
  node.lost = true;
  tell(Kind::node_lost, name);
  for (Job& job : jobs_) {
    if (std::find(job.nodes.begin(), job.nodes.end(), name) != job.nodes.end()) {
      withdraw(job, "node " + name + " was lost");
    }
  }
}

void SimCluster::notice_node(const std::string& name) {
  Node& node = nodes_[find_node(name)];
  if (!node.available()) return;
  node.noticed = true;
  tell(Kind::notice, name);
}

void SimCluster::return_node(const std::string& name) {
  Node& node = nodes_[find_node(name)];
  if (node.available()) return;
  node.lost = node.noticed = false;
  tell(Kind::node_back, name);
}

size_t SimCluster::find_job(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) fail("the simulated cluster has no job {}", name);
  return found->second;
}

size_t SimCluster::find_node(const std::string& name) const {
  const auto found = node_index_.find(name);
  if (found == node_index_.end()) fail("the simulated cluster has no node {}", name);
  return found->second;
}

void SimCluster::withdraw(Job& job, const std::string& why) {
  job.nodes.clear();
  job.why = why;
  job.state.place({}, 0);
  tell(Kind::allocate, job.spec.name, &job);
}

bool SimCluster::report_hints(Job& job) {
  if (job.spec.silent) return false;
  if (hints_arrive && !hints_arrive(job)) return false;
  const int known = job.reported.max_profiled_replicas;  // 0: no hints yet
  job.reported = job.state.hints();
  if (options_.rules.speeds_known) report_speeds(job);
  if (job.reported.max_profiled_replicas == 0) return false;
  job.reported.rescale_cost_s = rescale_cost_s(job);
  if (options_.rescale_s < 0 && options_.rules.costs_told) {
    job.reported.rescale_cost_s = job.state.profile().told_rescale_s().value_or(kMeasuredRescale);
  }
  job.reported.start_cost_s = start_cost_s(job);
  if (options_.lengths_known) job.reported.remaining_progress = job.state.remaining_progress();
  return job.reported.max_profiled_replicas > known;
}

void SimCluster::report_speeds(Job& job) const {
  if (job.spec.silent) return;
  const Profile& profile = job.state.profile();
  for (const std::string& kind : profile.kinds()) {
    if (kind.empty()) continue;
    KindHints& known = job.reported.kinds[kind];
    known.speed = profile.times(kind).speed();
    known.atomic_max = profile.times(kind).atomic_max();
  }
}

std::vector<double> SimCluster::interference() const {
  std::vector<double> result(jobs_.size(), 0);
  if (options_.interference <= 0) return result;
  std::map<std::string, int> distributed;  // jobs on several nodes, by node
  const auto nodes_of = [](const Job& job) {
    std::vector<std::string> nodes = job.nodes;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  };
  for (const Job& job : jobs_) {
    const auto nodes = nodes_of(job);
    for (const std::string& node : nodes) distributed[node] += nodes.size() > 1;
  }
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const auto nodes = nodes_of(jobs_[j]);
    const bool shares = nodes.size() > 1 && std::any_of(nodes.begin(), nodes.end(), [&](auto& n) {
                          return distributed[n] > 1;
                        });
    if (shares) result[j] = options_.interference;
  }
  return result;
}

void SimCluster::tell(Kind kind, const std::string& name, const Job* job) const {
  if (!on_event) return;
  TimelineEvent event{.time_s = now_s_, .kind = kind, .name = name};
  if (job != nullptr) {
    event.nodes = job->nodes;
    event.accelerator = job->nodes.empty() ? "" : job->accelerator;
    event.batch = job->state.batch();
    event.why = job->why;
    if (kind == Kind::finish) event.time_s = job->completed_s;
  }
  on_event(event);
}

}  // namespace adaptdl
