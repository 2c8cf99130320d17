#pragma once

// How the members of a group find each other: every process makes one Listener for its life and
// tells its endpoint() to the others (through the launcher); then, for every generation, all
// members call connect() with the same list of endpoints.
//
// Transport: between members of one host a shared memory segment (a sealed memfd, handed over a
// Unix socket); between hosts TCP, among the lowest ranks of the hosts. Every pair of members has
// a control link as well, over which death, departure and abort are noticed.
// Security: each connection starts with a challenge by which both sides prove that they know the
// run's secret (HMAC-SHA256 over both nonces, the generation and the ranks). Data are not
// encrypted.
// Order of reduction: rank order when all members are on one host or the message is small;
// otherwise host by host (hosts ordered by their lowest rank), in rank order within each. This
// is rank order too when each host's ranks are consecutive.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "runtime/comm/abort_signal.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/device_memory.h"

namespace adaptdl::comm {

struct ListenerOptions {
  // Listen on TCP too, for members on other hosts. Off: only this host can reach the listener.
  bool tcp = false;
  // The network interface to listen on ("eth0"). Empty: the one of the default route, else the
  // first that is up and not loopback, else loopback.
  std::string interface;
  // Names the host; members with the same name use shared memory. Empty: the kernel's boot id and
  // the network namespace. Tests set it to have several "hosts" on one machine.
  std::string host;
  // A connection that has not finished its challenge after this long is closed.
  double handshake_timeout_s = 5;
};

// Accepts connections for all generations of one process, in a thread of its own. A stranger who
// connects and stays silent, or talks nonsense, is dropped after the timeout and blocks nobody.
// Thread-safe. Must outlive the calls of connect() that use it; Communicators need it no more.
class Listener {
 public:
  // `secret`: the run's, at least 16 bytes. Throws Error when no socket can be made or when the
  // named interface does not exist.
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
  // Grows with every connect() of a Listener: it refuses connections for older generations.
  uint64_t generation = 0;
  int rank = 0;                           // this process's place in `endpoints`
  std::vector<nlohmann::json> endpoints;  // Listener::endpoint() of all members, in rank order
  TimePoint deadline{};                   // when to give up, e.g. Monotonic::now() + 30 s
  const AbortSignal* abort = nullptr;     // borrowed; may be null
  // What Memory::device is; outlives the Communicator. Null: there is no device.
  DeviceMemory* device = nullptr;
};

// Blocks until every member has called connect() for the same generation and this member's links
// to all of them are up. Throws Aborted when aborted, when the generation is refused as old by a
// member, or when a member dies or gives up meanwhile; Error when a member cannot be reached, does
// not know the secret or does not come by the deadline, or when an endpoint is malformed. A group
// of one returns at once.
std::unique_ptr<Communicator> connect(Listener& listener, const GroupOptions& options);

}  // namespace adaptdl::comm
