#pragma once

// Runs one workload under one policy: from the user's options to the reported figures.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/yaml.h"
#include "core/sim/simulation.h"
#include "core/sim/timeline.h"

namespace adaptdl {

struct ExperimentOptions {
  std::vector<ClusterNode> nodes;  // not empty
  double interval_s = 60;          // see AllocatorOptions
  std::optional<double> event_gap_s;
  std::optional<double> rescale_s = 30;  // none: as measured, by the profile
  bool lengths_known = false;
  double interference = 0;  // [0, 1)
  SimRules rules;
  uint64_t seed = 0;
  std::map<std::string, double> policy_options;
};

struct ExperimentResult {
  std::string policy;
  SimulationSummary summary{};
  std::vector<JobResult> jobs;
  std::vector<GpuSpan> spans;
  std::vector<std::string> problems;
  bool interrupted = false;
};

struct ExperimentProgress {
  double time_s = 0;  // virtual
  int finished = 0, jobs = 0;
};

// Hooks of the caller. `go_on` is called after every round; false ends the simulation, and the
// result holds what was simulated so far. `on_record` gets the records of the timeline.
struct ExperimentHooks {
  std::function<bool(const ExperimentProgress&)> go_on;
  std::function<void(const Json&)> on_record;
};

// Every policy for simulations: those of core/policy, then tiresias and optimus.
std::vector<std::string> simulated_policies();

// Whether jobs choose their batch under this policy. Otherwise they keep the batch of the workload.
bool adapts_batch(std::string_view policy);

// Throws Error, with what to do, if the policy does not support the nodes: tiresias and optimus
// support only one kind of GPU.
void check_nodes(std::string_view policy, const std::vector<ClusterNode>& nodes);

// Throws Error as make_policy(). Borrows the cluster, whose nodes check_nodes() accepts.
std::unique_ptr<Policy> make_simulated_policy(const std::string& name,
                                              const std::map<std::string, double>& options,
                                              const SimCluster& cluster,
                                              const std::vector<ClusterNode>& nodes);

ExperimentResult run_experiment(const std::string& policy, const std::vector<WorkloadJob>& workload,
                                const std::map<std::string, Profile>& profiles,
                                const ExperimentOptions& options, const ExperimentHooks& hooks);

// `count` nodes node-0, node-1, ... of `gpus` each. Requires: both >= 1.
std::vector<ClusterNode> uniform_cluster(int count, int gpus);

// A cluster from a YAML file:
//   nodes:
//     - {count: 16, gpus: 4}                       # named node-0 ... node-15
//     - {name: big, gpus: 8, accelerator: a100}
// Throws Error with file and line, also for duplicate names.
std::vector<ClusterNode> read_cluster(const std::string& path);

// The same from a part of another file: the list `nodes`.
std::vector<ClusterNode> cluster_from(const YamlNode& list);

// {"name", "application", "submitted_s", "started_s", "completed_s", "jct_s", "restarts", "gpu_s",
// "fairness"}, null for what did not happen; and the summary with the fields of SimulationSummary.
Json to_json(const JobResult& job);
Json to_json(const SimulationSummary& summary);

}  // namespace adaptdl
