#pragma once

// How long the others wait for a replica that neither dies nor arrives: its program hangs, or it
// was stopped. A step needs all members, so one such replica blocks the whole run.

#include <algorithm>

#include "core/base/clock.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"

namespace adaptdl::launch {

// Counts the time in which somebody waits. Slow is not hung: the patience grows with the longest
// step seen, and time in which the launcher itself did not run does not count. One thread.
class HangWatch {
 public:
  static constexpr double kLongestSteps = 20;
  static constexpr Seconds kLook{1};  // how often to call waiting()

  // `least`: minimum patience in seconds; 0 = never.
  explicit HangWatch(double least) : least_(least) {}

  bool on() const { return least_.count() > 0; }
  Seconds patience() const { return std::max(least_, kLongestSteps * longest_); }
  Seconds waited() const { return waited_; }
  bool counting() const { return since_ != TimePoint{}; }

  void step_took(Seconds duration);

  // A replica was stopped or continued: the duration of the present step says nothing about steps.
  void disturbed();

  // Call regularly: whether somebody waits.
  void waiting(TimePoint now, bool somebody);

  // Other replicas wait than before: starts counting at zero.
  void restart() { since_ = TimePoint{}, waited_ = Seconds{}; }

 private:
  Seconds least_, longest_{0}, waited_{0};
  TimePoint since_{};  // the last call; none while nobody waits
  bool disturbed_ = false;
};

// Finds the replicas that the others wait for, tells the user, and kills them when the patience
// ends. One thread.
class HungReplicas {
 public:
  HungReplicas(double least, RunReport& report) : watch_(least), report_(report) {}

  HangWatch& watch() { return watch_; }

  // Call after every event, and every HangWatch::kLook while the watch counts.
  void check(const View& view, ReplicaSet& replicas);

 private:
  HangWatch watch_;
  RunReport& report_;
  bool told_ = false;
};

}  // namespace adaptdl::launch
