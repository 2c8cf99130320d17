#pragma once

// Which replicas are much slower than the others, judged by what they measure. Pure: no clock.
//
// A replica is a straggler (slow_watch.h) if it computes a sample in more than kSlow times the
// median of the others, and these wait for it.
// It compares itself with replicas on the same kind of accelerator, at least two of them, since of
// two replicas nobody can say which one is as it should be. If most are slow, as on a machine with
// too much to do, the median is slow, and nobody is named.

#include <deque>
#include <string>
#include <vector>

#include "core/launch/io/protocol.h"
#include "core/launch/run/slow_watch.h"

namespace adaptdl::launch {

// One replica's part of a window: some seconds of steps.
struct Pace {
  MemberId member = 0;
  std::string kind;      // of accelerator; "": unknown
  double compute_s = 0;  // of its passes, without waiting for others
  double samples = 0;    // that it computed
  double waited_s = 0;   // that the others waited for it
};

// All replicas' parts of a window of `seconds`, in any order.
struct PaceWindow {
  double seconds = 0;
  std::vector<Pace> replicas;
};

// The evidence.
struct Straggler {
  static constexpr double kSlow = 1.5, kFast = 1.25;

  MemberId member = 0;
  double sample_s = 0;         // seconds that it computes for a sample
  double others_sample_s = 0;  // median of the others
  double waited = 0;           // share of the time that the others waited for it, 0 to 1
  double factor() const { return sample_s / others_sample_s; }
  MemberId key() const { return member; }
  static Straggler mean(const std::deque<Straggler>& windows);
};

// One thread.
class StragglerWatch {
 public:
  using News = SlowWatch<Straggler>::News;
  static constexpr size_t kWindows = SlowWatch<Straggler>::kWindows;

  // The next window. Ignores replicas without samples, and numbers that are not finite or negative.
  std::vector<News> window(const PaceWindow& window);

  // These train now, after a rescale or a restart. What others are compared with has changed: only
  // who is named already stays so.
  std::vector<News> members(const std::vector<MemberId>& members);

  // Who is named, in order of member.
  std::vector<Straggler> stragglers() const { return watch_.named(); }

 private:
  SlowWatch<Straggler> watch_;
};

// The evidence of one window on each replica that can be compared. Pure.
std::vector<Straggler> compare_paces(const PaceWindow& window);

}  // namespace adaptdl::launch
