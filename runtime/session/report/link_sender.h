#pragma once

// Tells the launcher how well the connections from this host to the others do, which names those
// that are much slower than the others (core/launch/run/link_watch.h).

#include <cstdint>
#include <vector>

#include "core/base/clock.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/session.h"

namespace adaptdl {

// For the training thread. Borrows the session.
class LinkSender {
 public:
  static constexpr double kWindow_s = 3;
  // Fewer cannot be compared; of more the launcher would hear too much.
  static constexpr int kLeastHosts = 3, kMostHosts = 64;

  explicit LinkSender(Session& session) : session_(session) {}

  // Call after every step. What was sent in the first one of a generation, or before, does not
  // count.
  void step_ended();

 private:
  Session& session_;
  uint64_t generation_ = 0;
  TimePoint begun_{};
  std::vector<comm::LinkUse> before_;  // at that time
};

}  // namespace adaptdl
