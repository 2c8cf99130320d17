#pragma once

// Connects the members of a group. Every process creates one Listener for its lifetime and sends
// its endpoint() to the others through the launcher. For every generation, all members call
// connect() with the same list of endpoints.
//
// Transport: members on one host use a shared memory segment (a sealed memfd, passed over a Unix
// socket). Hosts use TCP between their lowest ranks: one connection or several, by different
// addresses of the host where it has them. Every pair of members also has a control link, which
// reports death, departure and abort.
// Security: each connection starts with a challenge in which both sides prove that they know the
// run's secret (HMAC-SHA256 over both nonces, the generation and the ranks). Between hosts all of
// it is in TLS by a key that is derived from the secret (core/net/tls.h), unless that is off.
// Order of reduction: rank order when all members are on one host or the message is small;
// otherwise the sums of the hosts (ordered by their lowest rank), each in rank order.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/net/addresses.h"
#include "core/net/tcp.h"
#include "runtime/comm/abort_signal.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/device.h"

namespace adaptdl::comm {

struct ListenerOptions {
  // Also listen on TCP, for members on other hosts. Off: only this host can reach the listener.
  bool tcp = false;
  Reach reach;  // of the TCP listener
  // Names the host; members with the same name use shared memory. Empty: the kernel's boot id and
  // the network namespace. Tests set it to simulate several hosts on one machine.
  std::string host;
  // Between hosts: encrypts what follows the challenge, and finds what is changed on the way. All
  // members need the same. Off: for networks that are trusted, and faster than a core encrypts.
  bool encrypt = true;
  // A connection that does not finish its challenge in this time is closed.
  double handshake_timeout_s = 5;
};

// Accepts connections for all generations of one process, in its own thread. An unknown peer that
// connects and sends nothing or garbage blocks no other and is dropped after the timeout.
// Thread-safe. Must outlive the connect() calls that use it, but not their Communicators.
class Listener {
 public:
  // `secret`: of the run, at least 16 bytes. Throws Error if it cannot listen as told.
  explicit Listener(std::string secret, ListenerOptions options = {});
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Opaque, for GroupOptions::endpoints of the others. Contains no secret.
  nlohmann::json endpoint() const;

  class Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

struct GroupOptions {
  // Must increase with every connect() of a Listener, which refuses older generations.
  uint64_t generation = 0;
  int rank = 0;                           // this process's index in `endpoints`
  std::vector<nlohmann::json> endpoints;  // Listener::endpoint() of all members, in rank order
  TimePoint deadline{};                   // of connect(), e.g. Monotonic::now() + 30 s
  const AbortSignal* abort = nullptr;     // borrowed; may be null
  // The device behind Memory::device; must outlive the Communicator. Null: no device.
  Device* device = nullptr;
  // Of the members, for people, in rank order; none: "rank 0" and so on.
  std::vector<std::string> names = {};
  // Connections between two hosts for data, 1 to kMaxLinks, over which blocks are spread; the same
  // on all members. More than one pay where the network limits each, or there are several networks.
  int links = 1;
};

// What this host has tried, and what came of each address: a sentence for people.
struct Unreachable : Error {
  Unreachable(const std::string& what, int to) : Error(what), rank(to) {}
  int rank;  // whom
};

// Blocks until every member has called connect() for the same generation and this member's links
// to all of them are up. Throws Aborted if aborted, if a member refuses the generation as old, or
// if a member dies or gives up meanwhile. Throws Unreachable if another host does not answer at any
// of its addresses, Error if a member does not know the secret or does not connect before the
// deadline, or if an endpoint is malformed. Returns at once for a group of one.
std::unique_ptr<Communicator> connect(Listener& listener, const GroupOptions& options);

}  // namespace adaptdl::comm
