#pragma once

// A scenario: a small cluster, its jobs, the faults, and the properties that must still hold.
// scenario_run.h runs it with the production scheduler under the virtual clock.
//
//   about: A node is lost and returns.
//   nodes:                      # as in a cluster file, see experiment.h; or cluster: FILE
//     - {count: 4, gpus: 4}
//   jobs:                       # as in a workload file, see workload.h; or workload: FILE
//     - {name: a, application: vision, submitted_s: 0, replicas: 2, batch_size: 128}
//   profiles: profiles          # a folder, see profile_files.h; or a mapping of APPLICATION to
//                               # the contents of APPLICATION.yaml
//   policies:                   # and their options; default: all of core/policy
//     pollux: {fairness: 0}
//   seeds: 3                    # the seeds 1 to 3. This and all following keys are optional
//   jitter_s: 0                 # largest random delay of each job and fault, drawn by the seed
//   interval_s: 60              # see AllocatorOptions
//   event_gap_s: 5
//   rescale_s: 30               # see SimClusterOptions
//   lengths_known: false
//   interference: 0
//   faults:                     # times and lengths of time as 90, 90s or 1m 30s
//     - {kind: node_loss, node: node-1, at: 10m, until: 30m}
//     - {kind: spot_notice, node: node-2, at: 5m, by: 2m, until: 20m}  # lost `by` after the notice
//     - {kind: late_hints, jobs: "a*", by: 5m}             # arrive `by` later
//     - {kind: lost_hints, jobs: "*", probability: 0.5}    # of each report
//     - {kind: broken_hints, jobs: liar}                   # invalid numbers
//     - {kind: extreme_hints, jobs: liar}                  # valid, but absurd numbers
//     - {kind: clock_jump, by: -2h, at: 10m}               # of the clock of submission times
//   must:
//     unfinished: [too-wide]    # these jobs must not finish; all others must
//     longest_wait: 30m         # no job is without GPUs for longer at a time
//     mean_jct: 20m             # the limit, for the jobs that finish
//     max_restarts: {pollux: 9} # of any job. All three: for all policies, or for those named
//     expect_problems: ["job liar"]  # parts of the problems that rounds report; each must occur,
//                               # and no other problems
//
// Faults last from `at` (default 0) to `until` (default: forever); `jobs` is a shell pattern ("*").
// A lost node returns at `until`. Paths are relative to the scenario's folder.

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/sched/allocator.h"
#include "core/sim/profiles/profile_files.h"
#include "core/sim/sim_cluster.h"

namespace adaptdl {

struct ScenarioFault {
  enum class Kind {
    node_loss,
    spot_notice,
    late_hints,
    lost_hints,
    broken_hints,
    extreme_hints,
    clock_jump
  };
  Kind kind{};
  double from_s = 0, until_s = std::numeric_limits<double>::infinity();
  std::string node;        // node_loss, spot_notice
  std::string jobs = "*";  // the others
  double by_s = 0;         // spot_notice, late_hints, clock_jump (may be below 0)
  double probability = 1;  // lost_hints, [0, 1]
};

// By policy; the entry "" applies to policies without their own. Empty: no limit.
using ScenarioLimit = std::map<std::string, double>;

struct Scenario {
  std::string path, about;
  std::vector<ClusterNode> nodes;
  std::vector<WorkloadJob> workload;
  Profiles profiles;
  std::vector<std::pair<std::string, std::map<std::string, double>>> policies;  // name, options
  int seeds = 3;
  int jitter_s = 0;
  AllocatorOptions rounds;
  SimClusterOptions cluster;
  std::vector<ScenarioFault> faults;
  std::vector<std::string> unfinished, expect_problems;
  ScenarioLimit longest_wait_s, mean_jct_s, max_restarts;
};

// Throws Error with file, line and field, also for unknown nodes, jobs and policies.
Scenario read_scenario(const std::string& path);

}  // namespace adaptdl
