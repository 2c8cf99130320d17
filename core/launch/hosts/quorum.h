#pragma once

// Whether hosts that a launcher has lost may go on without it (roster.h): by the newest roster that
// all of them are known to have had, or by any that was told since, as each host acts on a roster
// as soon as it has it. Pure.

#include <set>
#include <string>
#include <vector>

#include "core/launch/hosts/roster.h"

namespace adaptdl::launch {

// One thread.
class Quorum {
 public:
  using Hosts = std::vector<Roster::Host>;

  // Hosts are told that roster. `folder_decides`: HostsOptions::folder_decides.
  void tell(const Roster& roster, bool folder_decides);
  // All hosts that are here have that roster, the newest: they do not go on by an older one, and
  // those that are not here are too few to.
  void settle(const Roster& roster, bool folder_decides);
  // The launcher that asks has taken over from that of this roster, which may live and have hosts
  // again: until all have a newer one, it needs those that had to follow it.
  void succeed(const Roster& before, bool folder_decides);
  bool succeeds() const { return state_ == State::succeeds; }
  // The launcher that asks is a new process in place of one that was with these hosts, all of which
  // may lead. They may have gone on, and one of them alone may be left by now: the launcher needs
  // every one of them, or has to know that it is gone.
  void come_again(const Roster& before);
  bool comes_again() const { return state_ == State::comes_again; }
  // Lost hosts do not go on, whatever their rosters say.
  void give_up_lost();

  // The oldest roster by which they would go on, if any.
  const Roster& oldest() const {
    return settled_.size > 0 || told_.empty() ? settled_ : told_.front();
  }

  // That host was told to stop: then it does not go on without this launcher.
  void left(const std::string& id) { left_.insert(id); }
  void joined(const std::string& id) { left_.erase(id); }

  // Whether lost hosts might train without this launcher, which asks holds() then.
  bool guards() const { return settled_.size > 0 || !told_.empty(); }
  // Whether the launcher may train with those that are here: the others are too few to go on.
  bool holds(const Hosts& here) const;
  // Those that may go on, and could lead.
  Hosts lost(const Hosts& here) const;

  // That, or the oldest one by which hosts may go on, with those of all newer ones: a launcher that
  // comes again has to find them.
  Roster to_remember(const Roster& newest) const;

 private:
  enum class State { leads, succeeds, comes_again };

  Roster all_told() const;  // the oldest one, with the hosts of all newer ones

  State state_ = State::leads;
  Roster settled_{.size = 0};   // 0: nobody goes on by it
  std::vector<Roster> told_;    // since, by which hosts may go on; the oldest first
  std::set<std::string> left_;  // ids of hosts that left since, or that it lists still
};

}  // namespace adaptdl::launch
