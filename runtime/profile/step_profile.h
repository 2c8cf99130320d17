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
  double accum_s = 0;   // one of those, mean; unused when there was none
  double optim_s = 0;   // the last pass to the end of the step, synchronisation included
  double sync_s = 0;    // thereof waiting for the gradients' synchronisation
};

// Keeps a mean for each (nodes, replicas, atomic batch) that the run has been through. The time of
// a pass is taken from accumulation passes together with (last pass - synchronisation).
//
// Not every step tells how long steps take:
//  - the first 3 after begin_generation(), and the first 2 at another placement or atomic batch,
//  pay
//    for connections, memory and caches: left out;
//  - one that takes over 3 times its mean (once that has 5 steps) met something else: left out. Ten
//    of them in a row are how it is now: the mean starts again;
//  - long means forget: beyond 512 steps the older half of the weight fades.
//
// Copyable (a few hundred bytes for each mean); not thread-safe. To fit elsewhere, copy
// observations() and call fit_perf_params() there.
class StepProfile {
 public:
  // The members, or what they run on, changed. What was learnt stays.
  void begin_generation();

  // Returns false when the step was left out; so is one whose numbers cannot be (not finite, not
  // positive, or more synchronisation than step).
  bool record(const StepTiming& timing);

  bool empty() const { return means_.empty(); }
  // Steps counted for a placement and atomic batch; 0 = never seen.
  int64_t steps(int nodes, int replicas, int64_t atomic) const;
  // The most replicas ever measured; 0 before the first.
  int max_replicas() const;

  std::vector<PerfObservation> observations() const;
  // Under a millisecond for 50 means. nullopt before the first step.
  std::optional<PerfParams> fit() const;

  // State for checkpoints and newcomers; from_json(to_json()) is the same to the last bit.
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
    int slow_in_a_row = 0;  // not part of the state: it settles by itself
  };

  std::map<Key, Mean> means_;
  Key last_;
  int settling_ = 0;  // steps still to leave out
};

}  // namespace adaptdl
