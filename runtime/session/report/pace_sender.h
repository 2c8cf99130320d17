#pragma once

// Tells the launcher how fast each replica computes, on rank 0 only: the launcher names those that
// are much slower than the others (core/launch/run/straggler_watch.h).

#include <cstdint>
#include <vector>

#include "runtime/session/prepared.h"
#include "runtime/session/session.h"

namespace adaptdl {

// For the training thread. Borrows the session.
class PaceSender {
 public:
  // What is sent covers as many seconds of steps, and as many steps, at least.
  static constexpr double kWindow_s = 3;
  static constexpr int64_t kWindowSteps = 5;
  // The first steps of a generation, or with another batch, set up connections, memory and caches.
  static constexpr int kSettling = 3;

  explicit PaceSender(Session& session) : session_(session) {}

  // Call after every step. Of those that all replicas have computed as planned, it adds up the
  // times. The last batch of a pass is left out: a replica's share of it may be one sample.
  void step_ended(const StepFacts& facts);

 private:
  void send() const;

  Session& session_;
  uint64_t generation_ = 0;
  BatchPlan batch_;
  int settling_ = 0;
  int64_t steps_ = 0;
  double seconds_ = 0;
  struct Sum {
    double compute_s = 0, samples = 0;
    double waited_s = 0;  // that the others waited for it, in the median
  };
  std::vector<Sum> sums_;  // by rank
};

}  // namespace adaptdl
