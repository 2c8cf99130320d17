#pragma once

// How long others wait for one that neither ends nor goes on, and when that is too long.

#include <algorithm>

#include "core/base/clock.h"

namespace adaptdl {

// Counts the time in which somebody waits. Slow is not hung: the patience grows with the longest
// step seen, and time in which nobody looked does not count: one look alone never ends it. One
// thread.
class HangWatch {
 public:
  static constexpr double kLongestSteps = 20;
  static constexpr Seconds kLook{1};  // how often to call waiting()

  // `least`: minimum patience in seconds; 0 = never.
  explicit HangWatch(double least) : least_(least) {}

  bool on() const { return least_.count() > 0; }
  Seconds patience() const { return std::max(least_, kLongestSteps * longest_); }
  Seconds waited() const { return waited_; }    // as counted
  Seconds elapsed() const { return elapsed_; }  // while somebody waited
  bool counting() const { return since_ != TimePoint{}; }

  void step_took(Seconds duration);

  // A replica was stopped or continued: the duration of the present step says nothing about steps.
  void disturbed();

  // Call regularly: whether somebody waits. `share`: of the time since the last call that counts.
  void waiting(TimePoint now, bool somebody, double share = 1);

  // While counting(): when to call waiting() again.
  TimePoint next_look() const {
    return since_ + std::chrono::duration_cast<Monotonic::duration>(kLook);
  }

  // Other replicas wait than before: starts counting at zero.
  void restart() { since_ = TimePoint{}, waited_ = elapsed_ = Seconds{}; }

 private:
  Seconds least_, longest_{0}, waited_{0}, elapsed_{0};
  TimePoint since_{};  // the last call; none while nobody waits
  bool disturbed_ = false;
};

}  // namespace adaptdl
