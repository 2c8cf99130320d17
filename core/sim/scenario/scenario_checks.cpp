#include "core/sim/scenario/scenario_checks.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {
namespace {

using Kind = TimelineEvent::Kind;

constexpr size_t kMaxViolations = 10;

}  // namespace

ScenarioChecks::ScenarioChecks(const Scenario& scenario, const SimCluster& cluster,
                               const std::string& policy, bool avoids_interference)
    : scenario_(scenario),
      cluster_(cluster),
      policy_(policy),
      avoids_interference_(avoids_interference) {
  for (const ClusterNode& node : scenario.nodes) nodes_[node.name] = &node;
}

template <typename... Args>
void ScenarioChecks::violated(fmt::format_string<Args...> format, Args&&... args) {
  if (violations_.size() >= kMaxViolations) return;
  violations_.push_back(fmt::format("{} s: {}", format_number(now_s_),
                                    fmt::format(format, std::forward<Args>(args)...)));
}

void ScenarioChecks::on_event(const TimelineEvent& event) {
  now_s_ = event.time_s;
  switch (event.kind) {
    case Kind::node_lost:
      gone_.insert(event.name);
      break;
    case Kind::notice:
      leaving_.insert(event.name);
      break;
    case Kind::node_back:
      gone_.erase(event.name);
      leaving_.erase(event.name);
      break;
    case Kind::submit:
      without_since_[event.name] = cluster_.job(event.name).spec.submitted_s;
      break;
    case Kind::allocate:
      allocated(event);
      break;
    case Kind::finish:
      given_.erase(event.name);
      break;
    case Kind::batch:
    case Kind::explain:
      break;
  }
}

void ScenarioChecks::allocated(const TimelineEvent& event) {
  const auto unavailable = [this](const std::string& node) {
    return gone_.contains(node) || leaving_.contains(node);
  };
  std::vector<std::string>& before = given_[event.name];
  for (const std::string& node : event.nodes) {
    if (!unavailable(node)) continue;
    violated("job {} gets node {}, which is lost or under notice", event.name, node);
  }
  if (!cluster_.job(event.name).spec.preemptible && !before.empty() &&
      std::none_of(before.begin(), before.end(), unavailable)) {
    violated("job {} loses its nodes, though it is not preemptible", event.name);
  }
  check_kinds(event.name, event.nodes);
  if (event.nodes.empty()) {
    without_since_.emplace(event.name, event.time_s);
  } else {
    waited(event.name, event.time_s);
    without_since_.erase(event.name);
  }
  before = event.nodes;
}

void ScenarioChecks::check_kinds(const std::string& job, const std::vector<std::string>& nodes) {
  std::set<std::string> kinds;
  for (const std::string& node : nodes) kinds.insert(nodes_.at(node)->accelerator);
  if (kinds.size() > 1) violated("job {} is on accelerators of several kinds", job);
}

void ScenarioChecks::waited(const std::string& job, double until_s) {
  const auto since = without_since_.find(job);
  const auto longest = limit(scenario_.longest_wait_s);
  if (!longest || since == without_since_.end() || until_s - since->second <= *longest) return;
  violated("job {} has waited for {}; the limit is {}", job,
           format_duration(until_s - since->second), format_duration(*longest));
}

void ScenarioChecks::after_round() {
  std::map<std::string, int64_t> used;                  // by node
  std::map<std::string, std::string> distributed_over;  // a job, by node
  for (const SimCluster::Job& job : cluster_.all_jobs()) {
    const auto replicas = static_cast<int>(job.nodes.size());
    if (replicas == 0) continue;
    const int most = std::min(job.spec.max_replicas, job.state.profile().max_replicas());
    if (replicas < job.spec.min_replicas || replicas > most) {
      violated("job {} has {} replicas; {} to {} are allowed", job.spec.name, replicas,
               job.spec.min_replicas, most);
    }
    for (const std::string& node : job.nodes) ++used[node];
    const std::set<std::string> nodes(job.nodes.begin(), job.nodes.end());
    if (!avoids_interference_ || nodes.size() < 2) continue;
    for (const std::string& node : nodes) {
      const auto [other, first] = distributed_over.emplace(node, job.spec.name);
      if (!first) {
        violated("distributed jobs {} and {} share node {}", other->second, job.spec.name, node);
      }
    }
  }
  for (const auto& [name, replicas] : used) {
    const Resources& has = nodes_.at(name)->free_for_jobs;
    const int64_t gpus = gone_.contains(name) || !has.contains("gpu") ? 0 : has.at("gpu");
    if (replicas > gpus) violated("node {} runs {} replicas on {} GPUs", name, replicas, gpus);
  }
}

void ScenarioChecks::at_end(const std::vector<JobResult>& jobs,
                            const std::vector<std::string>& problems) {
  const SimulationSummary summary = summarise(jobs, {});
  for (const JobResult& job : jobs) {
    const auto& unfinished = scenario_.unfinished;
    const bool may = std::find(unfinished.begin(), unfinished.end(), job.name) == unfinished.end();
    if (may && job.jct_s < 0) violated("job {} has not finished", job.name);
    if (!may && job.jct_s >= 0) violated("job {} has finished, but it must not", job.name);
    if (const auto most = limit(scenario_.max_restarts); most && job.restarts > *most) {
      violated("job {} was restarted {} times; the limit is {}", job.name, job.restarts, *most);
    }
  }
  if (const auto most = limit(scenario_.mean_jct_s); most && summary.avg_jct_s > *most) {
    violated("the mean completion time is {}; the limit is {}", format_duration(summary.avg_jct_s),
             format_duration(*most));
  }
  const auto& expected = scenario_.expect_problems;
  const auto names = [](const std::string& problem, const std::string& part) {
    return problem.find(part) != std::string::npos;
  };
  for (const std::string& problem : problems) {
    if (std::none_of(expected.begin(), expected.end(),
                     [&](const std::string& part) { return names(problem, part); })) {
      violated("a round reports a problem: {}", problem);
    }
  }
  for (const std::string& part : expected) {
    if (std::none_of(problems.begin(), problems.end(),
                     [&](const std::string& problem) { return names(problem, part); })) {
      violated("no round reports the problem '{}'", part);
    }
  }
}

std::optional<double> ScenarioChecks::limit(const ScenarioLimit& limits) const {
  for (const std::string& name : {policy_, std::string()}) {
    if (const auto found = limits.find(name); found != limits.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace adaptdl
