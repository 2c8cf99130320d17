#pragma once

// Converts the flags of `adaptdl simulate` to the simulation's options.

#include <string>
#include <vector>

#include "cli/frame/parse.h"
#include "core/sim/experiment.h"

namespace adaptdl::cli {

// One policy of --policy, and its options from --policy-option.
struct SimulatedPolicy {
  std::string name;
  std::map<std::string, double> options;
};

// An option NAME=VALUE applies to every policy of the list that has it, POLICY.NAME=VALUE to that
// one. Throws UsageError for unknown policies and options (with a suggestion), for a policy that is
// named twice, and for values out of range.
std::vector<SimulatedPolicy> simulated_policies_of(const Arguments& arguments);

// Cluster, rounds, costs; without policy_options. Throws UsageError, or Error for a cluster file.
ExperimentOptions experiment_options(const Arguments& arguments);

// Throws Error if the file cannot be written, as far as that can be checked without touching it: a
// simulation may take an hour, and should fail before it.
void check_writable(const std::string& path);

}  // namespace adaptdl::cli
