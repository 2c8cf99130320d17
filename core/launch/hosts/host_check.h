#pragma once

// Measures the network between hosts, each to each, by a probe (link_probe.h) on every one of them,
// which ssh starts. Nothing is left there but the copy of this binary.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/hosts/link_probe.h"

namespace adaptdl::launch {

struct HostCheckOptions {
  std::vector<std::string> hosts;  // as ssh takes them; this machine needs no ssh
  std::vector<std::string> ssh;    // as ssh_words()
  Reach reach;                     // of every host
  int links = 1;                   // connections between two hosts
  Seconds time{0.5};               // for each direction of a pair
};

// From one host to another, by their indices: `from` has connected to `to`.
struct CheckedLink {
  size_t from = 0, to = 0;
  std::optional<LinkMeasure> measure;  // its bytes go the other way, to `from`
  std::string problem;                 // why there is none; a sentence
  std::optional<double> bytes_per_s;   // from `from` to `to`: of the measure in that direction
};

struct HostCheck {
  std::vector<std::string> problems;  // of each host, why it takes no part; "": it does
  std::vector<CheckedLink> links;     // of those that take part, both directions of each pair
  int connections = 1;                // of each of these
};

// Call from a thread that lives as long as the process. `talk`: any thread calls it.
HostCheck check_hosts(const HostCheckOptions& options,
                      const std::function<void(const std::string&)>& talk);

// Whether every host takes part and reaches every other one.
bool all_reach(const HostCheck& check);

// The one with the fewest bytes a second; null if nothing was measured.
const CheckedLink* slowest(const HostCheck& check);

// The time that an all-reduce of so many bytes takes at least on `hosts` hosts, in seconds: each
// sends and receives 2 (n - 1) / n of them (connect.h of the runtime), at `bytes_per_s`.
double all_reduce_bound_s(double bytes, int hosts, double bytes_per_s);

}  // namespace adaptdl::launch
