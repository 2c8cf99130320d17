#pragma once

// What is known about the members of a run, and how messages and deaths change it. Pure, like the
// whole rendezvous (rendezvous.h), which decides on it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

enum class MemberState {
  starting,  // its process exists; has not said hello
  ready,     // said hello: can become a member of a generation; until it does, a spare
  active,    // has trained in a generation: has state
  gone,      // died or was dismissed; its process may not be reaped yet
};

struct Member {
  MemberId id = 0;
  MemberState state = MemberState::starting;
  TimePoint started, since;  // since: when it entered its state
  bool leaving = false;      // asked to leave
  bool said_bye = false;     // no longer a member of any generation
  bool stopped = false;      // its process is stopped (SIGSTOP): not dead
  bool saves = false;        // writes what the run leaves, which may take long
  uint64_t connected = 0;    // newest generation whose links it has
  uint64_t switched = 0;     // newest generation that it trains in
  // It joined others that train, and its trial is not over: a death counts as a failed newcomer.
  bool on_trial = false;
  TimePoint joined;   // when the trial began
  int steps = 0;      // finished since then
  bool died = false;  // by itself, in the middle of the run
  // Whether that death is counted in View::breakdowns and failed_newcomers.
  bool counts_as_breakdown = false, counts_as_failed = false;
  std::vector<int> slots;   // its own while its process exists
  std::string accelerator;  // kind that it trains on; "": unknown
};

struct Generation {
  uint64_t number = 0;            // 0: none
  std::vector<MemberId> members;  // in order of rank
  bool immediate = false;  // the previous one is over; else this one connects while it trains
  std::string cause;
  TimePoint issued;

  bool holds(MemberId id) const;
};

// Two members of which one could not reach the other, at any of its addresses.
struct Cut {
  MemberId from = 0, to = 0;
  TimePoint since;  // at the latest; until now they have not
  TimePoint heard;  // the last time
};

// All known facts. Changed only by the functions below, apply() and set_target().
struct View {
  std::vector<Member> members;        // in order of id
  Generation current;                 // in force: at least one member trains in it
  std::vector<Generation> announced;  // sent out, newer than current, in order
  std::optional<uint64_t> pending;    // newest announced one, while it is pending
  uint64_t last_generation = 0;       // newest number used
  int target = 1;                     // requested members, within the bounds
  std::string target_cause;           // why the target changed; "" once it is reached
  TimePoint forming_since;            // since when there is no current generation
  bool formed = false;                // there has been a generation
  std::optional<TimePoint> broken;    // since when the current generation cannot continue
  bool death = false;                 // ... because a member died (else: links broke)
  bool finishing = false;             // a member has finished the whole training
  bool finished = false;              // ... and that was rank 0
  bool lost_while_finishing = false;  // a member has not, and cannot continue alone
  bool stopping = false;              // the run is to end: no replica is added
  // The last members write a checkpoint for their successors.
  std::optional<TimePoint> handing_over;
  TimePoint saved_at = TimePoint::min();  // when a member last ended to save (Member::saves)

  int breakdowns = 0;  // in a row without a finished step between
  TimePoint breakdown_at = TimePoint::min();
  int link_breakdowns = 0;  // in which links broke and nobody died, in a row without a step, too
  TimePoint links_break_since;  // the first of them
  std::vector<Cut> cuts;        // none of members that train together since then
  int failed_newcomers = 0;     // in a row without one that joined and stayed
  TimePoint newcomer_failed_at = TimePoint::min();
  TimePoint retry_at;  // no newcomer is started or admitted before

  Member* find(MemberId id);
  const Member* find(MemberId id) const;
  const Generation* generation(uint64_t number) const;  // current or announced, else null
  const Generation& newest() const { return announced.empty() ? current : announced.back(); }
  int trained() const;  // living members with state
  bool saving() const;  // a living member saves, and its process is not stopped
  // Ready while others train, and not about to join them.
  bool is_spare(const Member& member) const;
};

// The trial of a replica that has joined others: it must stay for as many finished steps and as
// long. Without it, replicas that die soon after they have joined would come back for ever, and
// each death would cost the others a step.
inline constexpr int kTrialSteps = 3;
inline constexpr Seconds kTrialTime{5};

// A spare that dies after it has waited for so long has started well: it does not count in a row
// with newcomers that failed before.
inline constexpr Seconds kSpareTrialTime{60};

// Members that are to end, and save, have so long for it, and their grace begins when they have
// saved. Nothing else ends a wait for a disk that hangs: HungReplicas counts nothing while a member
// saves, and is not asked once the run ends. Whoever cannot wait so long sends a second signal.
inline constexpr Seconds kLongestSave{3600};

// Events. Unknown members, and generations that are not the sender's, are ignored.
void started(View& view, MemberId id, TimePoint now, std::vector<int> slots = {});
void said_hello(View& view, MemberId id, TimePoint now);
void said_connected(View& view, MemberId id, uint64_t number);
void said_switched(View& view, MemberId id, uint64_t number, TimePoint now);
// `connecting`: the links never came up, and the sender is still in its previous generation.
void said_lost(View& view, MemberId id, uint64_t number, bool connecting, TimePoint now);
// Besides, it was `to` that it could not reach. Before said_lost().
void said_cut(View& view, MemberId id, MemberId to, uint64_t number, TimePoint now);
void said_leaving(View& view, MemberId id, TimePoint now);
void said_saving(View& view, MemberId id, bool saves, TimePoint now);
// As if it had said so; it is the one whose links broke, so that the others need not wait longer.
void parted(View& view, MemberId id, TimePoint now);
void said_bye(View& view, MemberId id, bool finished, TimePoint now);
void died(View& view, MemberId id, TimePoint now);
// The death of that member is no failure after all: what caused it will not happen again. Before
// reaped().
void excused(View& view, MemberId id, TimePoint now);
void reaped(View& view, MemberId id);           // its process is gone; after died()
void step_finished(View& view, TimePoint now);  // one that no earlier attempt had finished
// To a launcher that takes over: members were told of that generation by the last one. Before what
// they said of it.
void recalled(View& view, Generation generation);
// One or more newcomers failed: the next attempt must wait.
void newcomers_failed(View& view, TimePoint now);
void forget_failed_newcomers(View& view);

}  // namespace adaptdl::launch
