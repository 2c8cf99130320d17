#pragma once

// From the flags of `adaptdl simulate` to what is simulated.

#include <string>
#include <vector>

#include "cli/frame/parse.h"
#include "core/sim/experiment.h"

namespace adaptdl::cli {

// One policy of --policy, and its share of --policy-option.
struct SimulatedPolicy {
  std::string name;
  std::map<std::string, double> options;
};

// An option NAME=VALUE goes to every policy of the list that has it, POLICY.NAME=VALUE to that one.
// Throws UsageError for unknown policies and options, with what was probably meant, for one named
// twice, and for values out of range.
std::vector<SimulatedPolicy> simulated_policies_of(const Arguments& arguments);

// Cluster, rounds, costs; without policy_options. Throws UsageError, or Error for a cluster file.
ExperimentOptions experiment_options(const Arguments& arguments);

// Throws Error if a file of that name could not be written, as far as that can be told without
// touching it: before an hour's work, not after it.
void check_writable(const std::string& path);

}  // namespace adaptdl::cli
