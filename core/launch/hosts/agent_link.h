#pragma once

// The connection of an agent on another host with the launcher of a run: frames as in protocol.h,
// in TLS by a key that both derive from the run's secret and name (core/net/tls.h). So an agent
// that can speak has the secret, and so has a launcher that answers.
//
// Both say `beat` {} from time to time, so that a host that is gone is noticed (watch_peer).
//
// launcher -> agent
//   joined    {protocol, owner, run_id, number}   the agent is accepted; owner: what run.lock
//                                  holds (run_folder.h); number: of the newest roster, if the
//                                  launcher leads already
//   roster    {roster}             the hosts of the run have changed (roster.h)
//   refused   {reason, final}      it is not; final: nor will it ever be
//   start     {member, slot, invitation: {run_id, replicas, atomic_limit, fresh_at}}
//                                  start a replica on that slot, counted from 0 on each host. Its
//                                  welcome (protocol.h) is the agent's own but for the invitation.
//                                  Of a command, host_command.h has the invitation and messages
//   tell      {member, message}    pass this on to the replica
//   kill      {member}             by SIGKILL
//   passed-on {told, replicas: [{member, events}]}   up to there (PassedOn) all events have been
//                                  written: so many of each replica, of those said to this
//                                  launcher. What they have said since, the agent tells the next
//                                  one again
//   go        {}                   no host that is leaving has replicas any more, so that this one,
//                                  which said so, need not keep the launcher that it has started
//   end       {exit}               the run has ended with this code; the agent exits with it, too
// agent -> launcher
//   join      {id, host, slots, terms, leads_at, address}   the first frame. id: of this agent
//                                  among those of the run. slots: 0 is a witness. leads_at,
//                                  address: Roster::Host::port, and its address if not that from
//                                  which it comes
//   knows     {number, shares, holds}   the newest roster that it has; whether it shares the
//                                  launcher's checkpoint folder; the step of the newest checkpoint
//                                  in its own, -1: none. With {roster, told} after `keeps`; told:
//                                  up to where the last launcher had passed on. Else, from a host
//                                  that has started since, with {remembered}: what an earlier
//                                  process there has left (roster_file.h)
//   keeps     {member, slot, pid, generations}   to a launcher of the same run_id, before its first
//                                  `knows`: a replica that lives on since another launcher. What it
//                                  has said follows
//   started   {member, pid}, or  ended {member, reason} if the start failed
//   say       {member, message}    from the replica
//   closed    {member}             its channel has ended, after all its messages
//   stopped   {member, stopped}    SIGSTOP, SIGCONT
//   ended     {member, signaled, value, memory}   memory: the system killed it because that ran out
//   leaving   {}                   the host was told to stop (SIGTERM): its slot is lost

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/net/tls.h"

struct addrinfo;

namespace adaptdl::launch {

struct Roster;

inline constexpr int kAgentProtocol = 6;
inline constexpr int kMostHosts = 4096;
inline constexpr int kMostSlotsOfHost = 4096;

// The step up to which a launcher has written all events, in a generation: a later one may have
// begun with an earlier step.
struct PassedOn {
  uint64_t generation = 0;
  int64_t step = -1;  // -1: unknown

  auto operator<=>(const PassedOn&) const = default;
};
nlohmann::json to_json(const PassedOn& told);
PassedOn passed_on_from_json(const nlohmann::json& json, const char* what);  // Throws Error

// Settings that the launcher and the agents of a run share.
struct HostsOptions {
  std::string secret;  // not empty
  // Of this host: the most replicas on it, which share its cores. 0: a launcher that only leads, or
  // an agent that is a witness: it never leads, has no files of the run, and only counts among the
  // hosts of which a majority goes on (roster.h).
  int slots = 1;
  // What must be the same on all hosts, such as the program: name -> a short text. The launcher
  // refuses an agent with other ones.
  std::map<std::string, std::string> terms;
  // Of the launcher: it listens on all addresses, 0: at any port (AgentServer::port()); or it takes
  // over a socket that listens already.
  uint16_t port = 0;
  std::shared_ptr<Fd> listener;
  // Of the launcher: called once, when no other launcher can run in this checkpoint folder.
  std::function<void()> announce;
  // Called by the launcher whenever its hosts change and before a generation is announced, and by
  // those that do not share its checkpoint folder when they hear of its hosts. Throws nothing.
  std::function<void(const Roster&)> remember;
  // Only hosts that share the checkpoint folder go on without their launcher: its lock decides.
  // Else also those that share nothing do, if they are a majority (roster.h); a launcher that has
  // lost so many hosts at once then waits for somebody who knows whether they are down.
  bool folder_decides = false;
  // A launcher that is told to stop (SIGTERM) leaves the run to hosts that share the checkpoint
  // folder and are not told; else the run ends. The agent beside a launcher passes the signal on.
  bool hands_over = false;
  // Hosts, the launcher's own included: those for which a run waits before its replicas start, and
  // those that it takes at once, each without witnesses. One that has begun goes on with fewer.
  int least = 1;
  int most = kMostHosts;
  Seconds silence{20};  // of a host, after which it counts as lost; >= 1
  // An agent that has not ended a replica this long after it was told to is given up: its process,
  // or its whole host, hangs although the connection is up.
  Seconds kill_patience{10};
};

// Of the connections between a run's agents and its launcher. `run`: its name.
TlsKey agent_key(const std::string& secret, const std::string& run);

// The secret of a run's workers, which both sides compute without sending it. Hexadecimal.
std::string run_secret(const std::string& secret, const std::string& run_id);

// That host says that nothing listens there.
struct ConnectionRefused : Error {
  using Error::Error;
};

// Connects to host (a name or an address); blocks. Of several addresses each has its share of the
// time, as one may be silent. Throws ConnectionRefused if all refuse, and Error for any other
// reason, also at the deadline.
Fd connect_tcp(const std::string& host, uint16_t port, TimePoint deadline);
// `where`: the host and port, for people.
Fd connect_first(const addrinfo& addresses, const std::string& where, TimePoint deadline);

// Makes the connection fail soon after so long without an answer of the peer's host to what was
// sent. A process that is only slow or stopped is no reason, its system answers. Whoever sends
// nothing else says a beat every beat_pause().
void watch_peer(int socket, Seconds silence);
Monotonic::duration beat_pause(Seconds silence);

}  // namespace adaptdl::launch
