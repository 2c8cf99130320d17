#pragma once

// How an agent of another host and the launcher of a run come together: one TCP connection with
// frames as in protocol.h. It begins with a challenge by which both prove that they know the run's
// secret (HMAC-SHA256 over both nonces and the slot); what follows is not encrypted.
//
// launcher -> agent
//   challenge {protocol, nonce}    the first frame
//   joined    {proof}              the agent is believed, and may believe the launcher
//   start     {member, welcome}    start a replica; welcome: of protocol.h, without `secret`, which
//                                  the agent puts in as it does its own threads and device
//   tell      {member, message}    hand this on to the replica
//   kill      {member}             by SIGKILL
//   end       {exit}               the run has ended so; the agent ends with the same code
// agent -> launcher
//   join      {nonce, proof, slot, host, run}   run: its name
//   started   {member, pid}, or  ended {member, reason} when it could not be
//   say       {member, message}    from the replica
//   closed    {member}             its channel has ended, after all it said
//   stopped   {member, stopped}    SIGSTOP, SIGCONT
//   ended     {member, signaled, value}
//   leaving   {}                   the host is to go (SIGTERM): its slot is taken away

#include <cstdint>
#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl::launch {

inline constexpr int kAgentProtocol = 1;

// What the coordinator and the agents of one run share.
struct HostsOptions {
  std::string secret;  // not empty
  uint16_t port =
      0;  // the launcher listens there on all addresses; 0: any, see AgentServer::port()
  // An agent that has not ended a replica so long after it was told to is given up: its process, or
  // its whole host, stands still, though the connection is there.
  Seconds kill_patience{10};
};

// What one side proves to the other; hexadecimal. `side`: "agent" or "launcher", whose proof it is.
std::string link_proof(const std::string& secret, const std::string& side,
                       const std::string& launcher_nonce, const std::string& agent_nonce, int slot);

// The secret of a run's workers: both sides know it without telling. Hexadecimal.
std::string run_secret(const std::string& secret, const std::string& run_id);

// Not blocking. Throws Error.
Fd listen_tcp(uint16_t port);
uint16_t port_of(int listener);

// A connection to host (a name or an address), blocking. Throws Error, also at the deadline.
Fd connect_tcp(const std::string& host, uint16_t port, TimePoint deadline);

// A peer that is gone without a word is noticed within some twenty seconds.
void watch_peer(int socket);

}  // namespace adaptdl::launch
