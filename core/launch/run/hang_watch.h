#pragma once

// How long the others wait for a replica that neither dies nor comes: one whose program hangs, or
// that was stopped. A step needs everybody, so one such replica holds up the whole run.

#include <algorithm>

#include "core/base/clock.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"

namespace adaptdl::launch {

// Counts time in which somebody waits. Slow is not hung: the patience grows with the longest step
// that was seen, and time in which the launcher itself did not run does not count. One thread.
class HangWatch {
 public:
  static constexpr double kLongestSteps = 20;
  static constexpr Seconds kLook{1};  // how often to call waiting()

  // `least`: seconds; 0 = never.
  explicit HangWatch(double least) : least_(least) {}

  bool on() const { return least_.count() > 0; }
  Seconds patience() const { return std::max(least_, kLongestSteps * longest_); }
  Seconds waited() const { return waited_; }
  bool counting() const { return since_ != TimePoint{}; }

  void step_took(Seconds duration);

  // Somebody was stopped, or goes on: what the step takes says nothing about steps.
  void disturbed();

  // Somebody waits, or not.
  void waiting(TimePoint now, bool somebody);

  // Who waits has changed: it begins anew.
  void restart() { since_ = TimePoint{}, waited_ = Seconds{}; }

 private:
  Seconds least_, longest_{0}, waited_{0};
  TimePoint since_{};  // the last call; none while nobody waits
  bool disturbed_ = false;
};

// Finds the replicas that the others wait for, tells the user of them, and at the end of the
// patience kills them. One thread.
class HungReplicas {
 public:
  HungReplicas(double least, RunReport& report) : watch_(least), report_(report) {}

  HangWatch& watch() { return watch_; }

  // Call after everything that happens, and every HangWatch::kLook while the watch counts.
  void check(const View& view, ReplicaSet& replicas);

 private:
  HangWatch watch_;
  RunReport& report_;
  bool told_ = false;
};

}  // namespace adaptdl::launch
