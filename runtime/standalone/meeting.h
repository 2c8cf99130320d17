#pragma once

// How replicas that nobody has launched find each other: at rank 0, which they look for at
// ADAPTDL_MASTER_ADDR or ask the supervisor for.
//
// With a key (Place::link_key) only who has it can join, and everything between hosts is encrypted;
// without, whoever can connect to rank 0 can, and the network is trusted.

#include <memory>
#include <string>

#include "core/launch/io/protocol.h"
#include "runtime/comm/connect.h"
#include "runtime/standalone/coordinator.h"
#include "runtime/standalone/place.h"

namespace adaptdl::standalone {

struct Meeting {
  std::unique_ptr<Coordinator> coordinator;  // on rank 0
  std::unique_ptr<launch::Channel> channel;  // to rank 0's coordinator, which has sent a welcome
  nlohmann::json welcome;
  std::string secret;
  comm::ListenerOptions listener;  // for the other replicas
};

// Blocks until rank 0 has let this replica in; does not wait for others. Throws Error if the place
// is invalid, if rank 0 does not answer within place.patience_s, or if it refuses this replica.
Meeting meet(const Place& place, const std::string& purpose);

}  // namespace adaptdl::standalone
