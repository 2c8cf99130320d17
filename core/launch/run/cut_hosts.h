#pragma once

// Hosts that reach the launcher but not each other. Those on the smaller side of such a cut take no
// part for a while, so that the others can train; then they are tried again, ever more rarely.

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/launch/run/membership.h"

namespace adaptdl::launch {

// Hosts have numbers: the less, the longer they have been there; 0: the launcher's.
using HostPair = std::pair<int, int>;

// A set of hosts without which no pair of `cut` is left, such that few of the `replicas` that train
// on each host (none: 0) are lost: greedily, one host after another. Of equals the newest goes.
std::vector<int> smaller_sides(std::set<HostPair> cut, const std::map<int, int>& replicas);

// One thread.
class CutHosts {
 public:
  // For so long two hosts must not have reached each other, and for so long others that see the
  // same may say so.
  static constexpr Seconds kPatience{10}, kSettle{0.5};
  // Trying again disturbs nobody who trains.
  static constexpr Seconds kFirstPause{15}, kLongestPause{960};
  // Who has been back for so long, and for as long as it was away, begins with the first pause
  // again: what was cut then is over.
  static constexpr Seconds kBack{60};

  // Who takes no part from now on, until pause_over() names it. `host_of`: a member's, -1: unknown.
  std::vector<int> leave_out(const View& view, TimePoint now,
                             const std::function<int(const Member&)>& host_of);
  // Those that are to be tried again.
  std::vector<int> pause_over(TimePoint now);
  Seconds pause(int host) const { return pauses_.at(host).length; }
  void forget(int host) { pauses_.erase(host); }  // it is gone; its number will not come again

  // When to call these again, even if nothing happens.
  TimePoint deadline(const View& view) const;

 private:
  struct Pause {
    Seconds length;
    TimePoint until;
    bool over = false;
  };
  std::map<int, Pause> pauses_;  // by host
};

}  // namespace adaptdl::launch
