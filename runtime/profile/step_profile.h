#pragma once

// Measured step times of a training run, and the step-time model fitted to them (Pollux, OSDI'21,
// section 3.2).

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/goodput/fit.h"

namespace adaptdl {

// One optimizer step, as measured; seconds.
struct StepTiming {
  int nodes = 1, replicas = 1;
  int64_t atomic = 0;   // samples in one replica's forward and backward
  int accum_steps = 0;  // passes before the last one
  double accum_s = 0;   // mean of those passes; unused if there was none
  double optim_s = 0;   // from the last pass to the end of the step, synchronisation included
  double sync_s = 0;    // the part of it spent waiting for the synchronisation of gradients
  // One of the steps of 2 * atomic samples that are computed in halves, between others that are
  // not.
  bool halved = false;
};

// Keeps a mean for each (nodes, replicas, atomic batch) that the run has used. The time of a pass
// is measured from accumulation passes and from (last pass - synchronisation).
//
// Steps that are not representative are handled as follows:
//  - The first 3 steps after begin_generation(), and the first 2 with another placement or atomic
//    batch, include the setup of connections, memory and caches: excluded. So are as many of the
//    steps in halves.
//  - A step that takes more than 3 times its mean (of at least 5 steps) was disturbed: excluded.
//    After ten of them in a row the conditions have changed: the mean restarts.
//  - Beyond 512 steps the older half of a mean's weight fades.
//
// Copyable (a few hundred bytes for each mean); not thread-safe. To fit on another thread, copy
// observations() and call fit_perf_params() there.
class StepProfile {
 public:
  // Call when the members, or what they run on, changed. Keeps all measurements.
  void begin_generation();

  // Returns false if the step was excluded, also for impossible numbers (not finite, not positive,
  // or more synchronisation than step).
  bool record(const StepTiming& timing);

  bool empty() const { return means_.empty(); }
  // Steps counted for a placement and atomic batch; 0 = none.
  int64_t steps(int nodes, int replicas, int64_t atomic) const;
  // The most replicas ever measured; 0 before the first.
  int max_replicas() const;

  std::vector<PerfObservation> observations() const;
  // Under a millisecond for 50 means. nullopt before the first step.
  std::optional<PerfParams> fit() const;

  // State for checkpoints and new replicas; from_json(to_json()) is bitwise the same.
  nlohmann::json to_json() const;
  static StepProfile from_json(const nlohmann::json& json);  // throws Error

 private:
  struct Key {
    int nodes = 1, replicas = 1;
    int64_t atomic = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Mean {
    double accum_sum = 0, accum_weight = 0;
    double optim_sum = 0, optim_weight = 0;
    int64_t steps = 0;
    int slow_in_a_row = 0;  // not part of the state, where it would matter little
  };

  struct Settling {
    Key last;
    int steps = 0;  // number of next ones to exclude
  };

  std::map<Key, Mean> means_;
  Settling whole_, halved_;
};

}  // namespace adaptdl
