#pragma once

// Which replicas train together. Membership is a numbered sequence of generations. decide() is a
// pure function that chooses the next action from what is known about the replicas (membership.h).
// Nothing here reads a clock, a socket or a process, so a test can play thousands of histories.
//
// Invariants (of View and decide; property-tested)
//  1. Numbers of generations grow and are never used twice.
//  2. At most one generation is in force: `current`. A step needs all its members.
//  3. A message about a generation older than the one its sender is in changes nothing.
//  4. No generation has more than max members, but for one that carries the state to other slots
//     through a replica of its old ones; one that is formed from nothing, or by choice, has at
//     least min; only deaths, departures and slots that are taken away make it smaller.
//  5. An immediate generation holds only members with state, if there is any such member alive.
//  6. A newcomer that does not come never stops those who train.
//  7. No slot is given to a replica while another one that has it lives.
//  8. Spares are started only while all requested replicas train, and never more than `spares`.
//     One that is ready joins as soon as a replica is missing and no generation is pending.
//     When newcomers fail too often, those that have been ready for kSpareTrialTime stay.

#include <optional>
#include <string>
#include <vector>

#include "core/launch/run/membership.h"

namespace adaptdl::launch {

struct RendezvousOptions {
  int min = 1, max = 1;
  // Cores or GPUs of the replicas, `slots_per_replica` distinct ones for each. None: no limit, but
  // for a run that `needs_slots`. Replicas on slots that are no longer in the list leave.
  std::vector<int> slots;
  bool needs_slots = false;
  int slots_per_replica = 1;
  int spares = 0;               // ready newcomers that wait for a member to be missing
  int max_restarts = 3;         // breakdowns, and failed newcomers, in a row
  Seconds start_timeout{120};   // from the start of a replica until it says hello
  Seconds connect_timeout{30};  // for a newcomer, from the generation message until it is connected
  Seconds settle{0.5};          // how long ready newcomers wait for those still starting
  Seconds lost_settle{0.5};  // how long broken links wait for the news of a death; longer each time
  // How long links may break again and again while nobody dies: networks come back.
  Seconds links_patience{300};
  Seconds exit_settle{0.5};   // how long a death waits for the news of how the process ended
  Seconds leave_timeout{30};  // for a replica that is no longer a member, until it is gone; for
                              // one that hands over, since it has saved (kLongestSave)
};

enum class Action {
  wait,       // until something happens, or `deadline`
  start,      // `count` new replicas, on `slots`: those of the first, of the second, ...
  announce,   // `generation` to its members and `leavers`
  dismiss,    // kill `dismissed`: they are no members of the current generation
  hand_over,  // the last members, all leaving, write a checkpoint and end
  restart,    // no replica with state is left: form anew from the newest checkpoint
  give_up,    // end the run as failed
};

struct Decision {
  Action action = Action::wait;
  std::string reason;                 // for people: the cause, or what is pending
  std::optional<TimePoint> deadline;  // wait: decide again then, even if nothing happens
  int count = 0;
  std::vector<int> slots;  // start: slots_per_replica for each, or none
  Generation generation;
  std::vector<MemberId> leavers;  // announce: told as well, because they are left out of it
  std::vector<MemberId> dismissed;
  bool failure = false;  // dismiss: counts as failed newcomers
};

// Pure. After every change of the view, and at its deadline: call, carry out, apply(), and repeat
// until it returns wait.
Decision decide(TimePoint now, const View& view, const RendezvousOptions& options);

// The view after the decision was carried out; for start, started() does that instead.
void apply(View& view, const Decision& decision, TimePoint now);

// Clamps to the bounds, and forgets failed newcomers, so that they are tried again.
void set_target(View& view, int target, const std::string& cause, const RendezvousOptions& options);
// As set_target(), but a later request overrides the initial bounds: they grow to include it.
void request_target(View& view, int target, const std::string& cause, RendezvousOptions& options);

}  // namespace adaptdl::launch
