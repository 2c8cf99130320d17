#pragma once

// Runs a workload through the production scheduler under the virtual clock.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/sched/allocator.h"
#include "core/sim/sim_cluster.h"

namespace adaptdl {

struct JobResult {
  std::string name, application;
  double submitted_s = 0;
  double started_s = -1;    // < 0: never
  double completed_s = -1;  // < 0: not by the end
  double jct_s = -1;        // completed - submitted; < 0: not completed
  int restarts = 0;         // changes of its allocation after the first
  double gpu_s = 0;
  std::map<std::string, double> gpu_s_by_kind;  // "" where nodes have no kind
  double fairness = -1;  // finish-time fairness, see fairness.h; < 0: not computed or not completed
};

struct PolicyTimes {
  int rounds = 0;
  double sum_s = 0, max_s = 0;  // by the real clock
};

// Statistics of the completed jobs; NaN if there are none.
struct SimulationSummary {
  int jobs = 0, completed = 0;
  double avg_jct_s, p50_jct_s, p99_jct_s, max_jct_s;
  double makespan_s;  // last completion, counted from 0
  double gpu_hours, restarts_per_job;
  std::map<std::string, double> gpu_hours_by_kind;
  double worst_fairness, mean_fairness;  // NaN where not computed
  int rounds = 0;
  double policy_mean_s, policy_max_s;
};

class Simulation {
 public:
  // Borrows cluster and policy for its lifetime. A job whose request fits on no node waits forever.
  // So step() gives up if for `patience_s` no job or fault came, and all jobs together did less
  // than a thousandth of the work of one job.
  Simulation(SimCluster& cluster, Policy& policy, const AllocatorOptions& options,
             double patience_s = 7 * 86400);

  // Runs `action` at that virtual time, or at once if it is past: between rounds, after the jobs
  // have advanced to that time. Like an added or lost node, it triggers the next round. Actions of
  // the same time run in the order of the calls.
  void at(double time_s, std::function<void()> action);

  // Advances to the next round and runs it. Returns false when all jobs have finished or step()
  // gives up. Rounds without jobs are counted, but not run, because they decide nothing.
  bool step();

  std::vector<JobResult> results() const;
  const PolicyTimes& policy_times() const { return times_; }
  const std::vector<std::string>& problems() const { return problems_; }  // of rounds, each once

 private:
  bool act();
  void skip_empty_rounds();

  SimCluster& cluster_;
  Allocator allocator_;
  double interval_s_;
  std::multimap<double, std::function<void()>> actions_;  // by time
  double tick_s_, patience_s_, idle_since_s_ = 0, done_ = 0;
  PolicyTimes times_;
  std::vector<std::string> problems_;
};

SimulationSummary summarise(const std::vector<JobResult>& jobs, const PolicyTimes& times);

// The value below which the share `q` of the values lies, interpolated between order statistics.
// NaN for no values.
double percentile(std::vector<double> values, double q);

}  // namespace adaptdl
