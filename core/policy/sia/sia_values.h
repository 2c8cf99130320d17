#pragma once

// The configurations that Sia considers for one job, and their values (Sia, SOSP'23, sections 3.2
// to 3.4). Pure functions of plain numbers, any thread.

#include <optional>
#include <span>
#include <vector>

#include "core/goodput/goodput_table.h"

namespace adaptdl {

// Some replicas of a job on some nodes of one kind of accelerator.
struct Configuration {
  int kind = 0;
  int nodes = 0;     // >= 1
  int replicas = 0;  // >= nodes

  bool operator==(const Configuration&) const = default;
};

// What the nodes of a kind can hold of a job.
struct KindRoom {
  int whole_nodes = 0;  // nodes that can hold `per_node` replicas
  int per_node = 0;     // replicas that fill the kind's largest node
  int single = 0;       // most replicas on one node now, <= per_node
};

// On one node 1, 2, 4, ... and per_node replicas; on n >= 2 nodes n * per_node; all of those with
// `least` to `most` replicas. Ordered by kind, then replicas. If no kind has any, the ways to run
// exactly `least` replicas on the fewest nodes, so that a job can run whose bounds (3 to 3) or
// measurements (2 so far, at least 8 wanted) allow nothing else.
// Requires: 1 <= least.
std::vector<Configuration> sia_configurations(std::span<const KindRoom> kinds, int least, int most);

// The factor on a configuration's goodput if the job must restart for it:
//   max(age - restarts * cost, 0) / (age + cost), and 1 while age < cost.
// Seconds, all >= 0. The younger a job is and the more often it has restarted, the more a change
// costs; at 0 the job cannot change.
double restart_factor(double age_s, int restarts, double cost_s);

struct ConfigurationValue {
  double goodput = 0;     // samples/s
  double normalised = 0;  // / the least goodput of the job's configurations, of all kinds
  double factor = 0;      // restart factor, 1 for the present configuration
  double value = 0;       // (factor * normalised)^p; infinite where factor is 0: not allowed
};

// By configuration. `goodput` has one table for each kind; `present` may be among the
// configurations or not; `change` is the factor of every other one. Requires: p < 0.
std::vector<ConfigurationValue> sia_values(std::span<const Configuration> configurations,
                                           std::span<GoodputTable> goodput,
                                           const std::optional<Configuration>& present,
                                           double change, double p);

}  // namespace adaptdl
