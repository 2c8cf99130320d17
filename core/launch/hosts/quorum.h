#pragma once

// Whether hosts that a launcher has lost may go on without it (roster.h): by the newest roster that
// all of them are known to have had, not by newer ones, of which some may not have heard. Pure.

#include <set>
#include <string>
#include <vector>

#include "core/launch/hosts/roster.h"

namespace adaptdl::launch {

// One thread.
class Quorum {
 public:
  using Hosts = std::vector<Roster::Host>;

  // All hosts of that roster have it. `folder_decides`: HostsOptions::folder_decides.
  void settle(const Roster& roster, bool folder_decides);
  // The launcher that asks has taken over from that of this roster, which may live and have hosts
  // again: until all have a newer one, it needs those that had to follow it.
  void succeed(const Roster& before, bool folder_decides);
  bool succeeds() const { return guards_ && state_ == State::succeeds; }
  // The launcher that asks is a new process in place of one that was with these hosts, all of which
  // may lead. They may have gone on, and one of them alone may be left by now: the launcher needs
  // every one of them, or has to know that it is gone.
  void come_again(const Roster& before);
  bool comes_again() const { return guards_ && state_ == State::comes_again; }
  // Lost hosts do not go on, whatever the roster says.
  void give_up_lost() {
    settled_ = {.size = 0};
    state_ = State::leads;
  }

  // The newest roster by which they would go on.
  const Roster& settled() const { return settled_; }

  // That host was told to stop: then it does not go on without this launcher.
  void left(const std::string& id) { left_.insert(id); }
  void joined(const std::string& id) { left_.erase(id); }

  // Whether lost hosts might train without this launcher, which asks holds() then.
  bool guards() const { return guards_; }
  // Whether the launcher may train with those that are here: the others are too few to go on.
  bool holds(const Hosts& here) const;
  // Those that may go on, and could lead.
  Hosts lost(const Hosts& here) const;

  // That, or an older one with hosts that `newest` lacks, and which may go on: a launcher that
  // comes again has to find them.
  const Roster& to_remember(const Roster& newest) const;

 private:
  enum class State { leads, succeeds, comes_again };

  bool guards_ = false;
  State state_ = State::leads;
  Roster settled_{.size = 0};
  std::set<std::string> left_;  // ids of hosts that left since, or that it lists still
};

}  // namespace adaptdl::launch
