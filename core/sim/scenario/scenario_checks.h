#pragma once

// Checks the properties of every scenario, and those that a scenario adds.

#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/sim/scenario/scenario.h"
#include "core/sim/simulation.h"

namespace adaptdl {

// Watches one simulation. Always required:
//  1. no node runs more replicas than it has GPUs, and a lost node runs none;
//  2. no job gets replicas on a node that is lost or under notice;
//  3. a job has no replicas, or min_replicas to max_replicas of them, on one kind of accelerator;
//  4. a job that is not preemptible keeps its nodes, unless one of them is lost or under notice;
//  5. if the policy avoids interference, at most one job spanning several nodes on a node;
//  6. every job finishes, except those that must not, and rounds report only expected problems.
class ScenarioChecks {
 public:
  // Borrows both.
  ScenarioChecks(const Scenario& scenario, const SimCluster& cluster, const std::string& policy,
                 bool avoids_interference);

  void on_event(const TimelineEvent& event);
  void after_round();
  void at_end(const std::vector<JobResult>& jobs, const std::vector<std::string>& problems);

  // Sentences; only the first few.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  template <typename... Args>
  void violated(fmt::format_string<Args...> format, Args&&... args);
  void allocated(const TimelineEvent& event);
  void check_kinds(const std::string& job, const std::vector<std::string>& nodes);
  void waited(const std::string& job, double until_s);
  std::optional<double> limit(const ScenarioLimit& limits) const;

  const Scenario& scenario_;
  const SimCluster& cluster_;
  std::string policy_;
  bool avoids_interference_;
  std::map<std::string, const ClusterNode*> nodes_;        // by name
  std::set<std::string> gone_, leaving_;                   // nodes
  std::map<std::string, std::vector<std::string>> given_;  // by job
  std::map<std::string, double> without_since_;            // by job: it has no GPUs
  double now_s_ = 0;                                       // of the last event
  std::vector<std::string> violations_;
};

}  // namespace adaptdl
