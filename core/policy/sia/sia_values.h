#pragma once

// What the configurations of one job are worth to Sia (SOSP'23, sections 3.2 to 3.4). Pure
// functions of plain numbers, any thread.

#include <optional>
#include <span>
#include <vector>

#include "core/goodput/goodput_table.h"
#include "core/policy/configuration.h"

namespace adaptdl {

// The share of a configuration's goodput that remains if the job must restart for it:
//   max(age - restarts * cost, 0) / (age + cost), and 1 while age < cost.
// Seconds, all >= 0. The younger a job is and the more often it has restarted, the more a change
// costs; at 0 the job cannot change.
double restart_factor(double age_s, int restarts, double cost_s);

struct ConfigurationValue {
  double goodput = 0;     // samples/s
  double normalised = 0;  // goodput / the smallest goodput of the job's configurations of all kinds
  double factor = 0;      // restart factor, 1 for the present configuration
  double value = 0;       // (factor * normalised)^p; infinite where factor is 0: not allowed
};

// By configuration. `goodput` has one table for each kind. `present` need not be one of the
// configurations; `change` is the factor of all others. Requires: p < 0.
std::vector<ConfigurationValue> sia_values(std::span<const Configuration> configurations,
                                           std::span<GoodputTable> goodput,
                                           const std::optional<Configuration>& present,
                                           double change, double p);

}  // namespace adaptdl
