#pragma once

// The hosts of a run, as its launcher sees them: for how many replicas they have room, which of
// them take part, and when it has to wait for them.

#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/launch/hosts/agent_server.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/cut_hosts.h"
#include "core/launch/run/event_stream.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/rendezvous.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

// One thread. A run on one machine has none: then all of this does nothing, but for ask_for().
class RunHosts {
 public:
  // Borrows all.
  RunHosts(const RunOptions& options, View& view, RendezvousOptions& rendezvous,
           ReplicaSet& replicas, RunReport& report);

  // Somebody wants so many replicas. Of fewer slots all are used, until there are more.
  void ask_for(int replicas, const char* cause);
  // The slots of all hosts have changed: else there is a replica for each of them, but for those of
  // the spares. These take the places of replicas that are lost with their hosts; hosts that come
  // make up for that before more replicas train.
  void use_slots();
  // The same, by a launcher that takes over from one under which those trained.
  void use_slots(const Generation& last);
  void left(const AgentServer::Slots& slots) { cut_.forget(slots.front()); }

  // Before its first replica, and when it has lost all, a run waits for as many hosts as it needs.
  bool waits(std::string& reason);
  // The others of those that were lost at once may go on without this launcher. Until when to wait;
  // nothing: it goes on. Throws LedElsewhere.
  std::optional<TimePoint> lacks(std::string& reason);

  // Hosts that do not reach each other: see CutHosts. Call part_cut() also at deadline(), which
  // leaves that time out if you do not (`parts`).
  void part_cut();
  TimePoint deadline(bool parts) const;

  // Lets the other hosts forget the events of replicas there that this launcher has passed on. Call
  // after all that they have said was read.
  void confirm_events(const EventStream& stream);
  // The same, at once; then the run is theirs.
  void hand_over(const EventStream& stream);

 private:
  const RunOptions& options_;
  View& view_;
  RendezvousOptions& rendezvous_;
  ReplicaSet& replicas_;
  RunReport& report_;
  CutHosts cut_;
  TimePoint look_elsewhere_at_ = TimePoint::min();
  TimePoint confirm_at_ = TimePoint::min();
  bool unconfirmed_ = false;
  std::optional<int> asked_for_;  // replicas
  int most_;                      // that the slots were ever for
};

}  // namespace adaptdl::launch
