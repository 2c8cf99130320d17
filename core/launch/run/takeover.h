#pragma once

// How a launcher takes the place of one that is lost: it gathers that one's hosts, and the replicas
// that they have kept, before it leads.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/launch/hosts/roster.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/event_stream.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

// One thread.
class Takeover {
 public:
  // Everything is borrowed. Without options.succeeds there is nothing to gather.
  Takeover(const RunOptions& options, View& view, ReplicaSet& replicas, EventStream& stream,
           RunReport& report);

  bool gathers() const { return since_.has_value(); }

  // A host has kept that replica; it says next what that has said.
  void kept(std::unique_ptr<Replica> replica, const nlohmann::json& generations);

  // Until when to wait for more hosts; nothing: this launcher leads. Throws Error if too few
  // follow: perhaps another one leads, or the last launcher lives.
  std::optional<TimePoint> wait_for_hosts();

 private:
  Roster newest_roster() const;
  // The newest generation that is known here, or the roster's.
  Roster::Announced newest_announced(const Roster& roster) const;
  bool have_newest(const Roster& newest) const;
  void drop_replicas(bool all);
  // Leaves the hosts to another launcher. Throws Error.
  [[noreturn]] void give_up(const std::string& why);

  const RunOptions& options_;
  View& view_;
  ReplicaSet& replicas_;
  EventStream& stream_;
  RunReport& report_;
  std::optional<TimePoint> since_;
};

}  // namespace adaptdl::launch
