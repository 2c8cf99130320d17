#pragma once

// Which connections between hosts are much slower than the others, judged by what the hosts'
// kernels have measured while replicas train. Pure: no clock.
//
// Of two hosts that exchange data the direction counts that was busy for longer: the time in which
// something was sent and not acknowledged, by the bytes. A host is worth the median of its
// connections, so that one slow connection is no slow host. Its network is slow (slow_watch.h) if
// it is more than kSlow times as slow as the median of the other hosts, and busy for longer, which
// is how long these wait for it. Where that is true of the connection of two hosts, compared with
// all connections, and of neither host, this connection is slow. It takes three hosts: of two
// nobody could say which one is slow.

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/launch/run/slow_watch.h"

namespace adaptdl::launch {

// What a host has sent to the others in a window of `seconds`.
struct LinkWindow {
  struct To {
    int host = 0;
    double bytes = 0;
    double busy_s = 0;  // while something was not acknowledged
  };
  int from = 0;
  double seconds = 0;
  std::vector<To> to;
};

// The evidence.
struct SlowLink {
  static constexpr double kSlow = 2, kFast = 1.5;

  int host = 0;
  std::optional<int> peer;   // above `host`; none: all connections of the host
  double byte_s = 0;         // seconds for a byte
  double others_byte_s = 0;  // of the others, in the median
  double waited = 0;         // share of the time for which it was busy, less that of the others
  double factor() const { return byte_s / others_byte_s; }
  std::pair<int, std::optional<int>> key() const { return {host, peer}; }
  static SlowLink mean(const std::deque<SlowLink>& windows);
};

// One thread.
class LinkWatch {
 public:
  using News = SlowWatch<SlowLink>::News;
  // Fewer cannot be compared; of more a launcher would hear too much.
  static constexpr size_t kLeastHosts = 3, kMostHosts = 64;

  // Judges once all hosts have told of one since the last judgement. Ignores connections without a
  // byte, and numbers that are not finite or negative.
  std::vector<News> window(const LinkWindow& window);

  // Replicas on these hosts train now, after a rescale or a restart.
  std::vector<News> hosts(const std::set<int>& hosts);

  std::vector<SlowLink> slow() const { return watch_.named(); }  // by host

 private:
  std::map<int, LinkWindow> windows_;  // by host: since the last judgement
  SlowWatch<SlowLink> watch_;
};

// The evidence of one window of each host. Pure.
std::vector<SlowLink> compare_links(const std::map<int, LinkWindow>& windows);

}  // namespace adaptdl::launch
