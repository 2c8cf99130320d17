#pragma once

// Which connections between hosts are much slower than the others, judged by what the hosts'
// kernels have measured while replicas train. Pure: no clock.
//
// Of two hosts that exchange data the slower direction counts: the time in which something was sent
// and not acknowledged, by the bytes. A host is worth the median of its connections, so that one
// slow connection is no slow host. Its network is slow (slow_watch.h) if it is more than kSlow
// times as slow as the median of the other hosts, and busy for longer, which is how long these wait
// for it. Where that is true of the connection of two hosts, compared with all connections, and of
// neither host, this connection is slow. It takes three hosts: of two nobody could say which one is
// slow.
//
// The last acknowledgement of a collective may come late, which is no fault of the network: what is
// judged has that taken off, the others have not. So little is said of collectives of small
// messages.

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/launch/io/protocol.h"
#include "core/launch/run/slow_watch.h"

namespace adaptdl::launch {

// What a host has sent to the others in a window of `seconds`. Hosts are named by their first
// members.
struct LinkWindow {
  struct To {
    MemberId host = 0;
    double bytes = 0;
    double busy_s = 0;  // while something was not acknowledged
  };
  MemberId from = 0;
  double seconds = 0;
  double collectives = 0;
  std::vector<To> to;
};

// The evidence.
struct SlowLink {
  static constexpr double kSlow = 2, kFast = 1.5;

  MemberId host = 0;
  std::optional<MemberId> peer;  // none: all connections of the host
  double byte_s = 0;             // seconds for a byte
  double others_byte_s = 0;      // of the others, in the median
  double waited = 0;             // share of the time that only it was busy, 0 to 1
  double factor() const { return byte_s / others_byte_s; }
  std::pair<MemberId, std::optional<MemberId>> key() const { return {host, peer}; }
  static SlowLink mean(const std::deque<SlowLink>& windows);
};

// One thread.
class LinkWatch {
 public:
  using News = SlowWatch<SlowLink>::News;

  // Judges once all hosts have told of one since the last judgement. Ignores connections without
  // bytes, and numbers that are not finite or negative.
  std::vector<News> window(const LinkWindow& window);

  // These train now, after a rescale or a restart.
  std::vector<News> members(const std::vector<MemberId>& members);

  std::vector<SlowLink> slow() const { return watch_.named(); }  // by host

 private:
  std::map<MemberId, LinkWindow> windows_;  // by host: since the last judgement
  SlowWatch<SlowLink> watch_;
};

// The evidence of one window of each host. Pure.
std::vector<SlowLink> compare_links(const std::map<MemberId, LinkWindow>& windows);

}  // namespace adaptdl::launch
