#pragma once

// Who trains together. Membership is a numbered sequence of generations; decide() is a pure
// function that says what to do next, from what is known about the replicas. Nothing here reads a
// clock, a socket or a process, so that thousands of histories can be played in a test.
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

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/protocol.h"

namespace adaptdl::launch {

enum class MemberState {
  starting,  // its process exists; has not said hello
  ready,     // said hello: can become a member of a generation
  active,    // has trained in a generation: has state
  gone,      // died or was dismissed; its process may not be reaped yet
};

struct Member {
  MemberId id = 0;
  MemberState state = MemberState::starting;
  TimePoint started, since;  // since: when it came into its state
  bool leaving = false;      // asked to be let go
  bool said_bye = false;     // is no member of anything any more
  bool stopped = false;      // its process is stopped (SIGSTOP): not dead
  uint64_t connected = 0;    // newest generation whose links it has
  uint64_t switched = 0;     // newest generation that it trains in
  std::vector<int> slots;    // that are its own while its process exists
};

struct Generation {
  uint64_t number = 0;            // 0: none
  std::vector<MemberId> members;  // in order of rank
  bool immediate = false;         // the one before is over; else it is connected beside it
  std::string cause;
  TimePoint issued;
};

struct RendezvousOptions {
  int min = 1, max = 1;
  // What replicas run on (a GPU, a core), each on `slots_per_replica` of its own, all different.
  // None: no limit. Replicas that have others, because the list has changed, leave.
  std::vector<int> slots;
  int slots_per_replica = 1;
  int max_restarts = 3;         // breakdowns, and failed newcomers, in a row
  Seconds start_timeout{120};   // from its start until a replica says hello
  Seconds connect_timeout{30};  // for a newcomer, from the generation message until it is connected
  Seconds settle{0.5};          // how long ready newcomers wait for those still starting
  Seconds lost_settle{0.1};     // how long broken links wait for the news of a death
  Seconds leave_timeout{30};    // for a replica that is no member any more, until it is gone
};

// All that is known. Changed only by the functions below.
struct View {
  std::vector<Member> members;        // in order of id
  Generation current;                 // in force: somebody trains in it
  std::vector<Generation> announced;  // sent out, newer than current, in order
  std::optional<uint64_t> pending;    // newest announced one, while it is waited for
  uint64_t last_generation = 0;       // newest number used
  int target = 1;                     // wanted members, within the bounds
  std::string target_cause;           // why the target changed; "" once it was reached
  TimePoint forming_since;            // since when there has been no current generation
  bool formed = false;                // there has been one
  std::optional<TimePoint> broken;    // the current generation cannot go on, since then
  bool death = false;                 // ... because a member died (else: links broke)
  bool finishing = false;             // a member has finished the whole training
  bool finished = false;              // ... and that was rank 0
  bool lost_while_finishing = false;  // a member has not, and cannot go on by itself
  bool stopping = false;              // the run is to end: nobody is added any more
  std::optional<TimePoint>
      handing_over;    // the last members write a checkpoint for their successors
  int breakdowns = 0;  // in a row without a finished step between
  TimePoint breakdown_at;
  int failed_newcomers = 0;  // in a row without one that joined
  TimePoint retry_at;        // not before then is another newcomer started or admitted

  Member* find(MemberId id);
  const Member* find(MemberId id) const;
  const Generation* generation(uint64_t number) const;  // current or announced, else null
};

enum class Action {
  wait,       // until something happens, or `deadline`
  start,      // `count` new replicas, on `slots`: those of the first, of the second, ...
  announce,   // `generation` to its members and `leavers`
  dismiss,    // kill `dismissed`: they are no members of the current generation
  hand_over,  // have the last members, all leaving, write a checkpoint and end
  restart,    // nobody with state is left: form anew from the newest checkpoint
  give_up,    // end the run as failed
};

struct Decision {
  Action action = Action::wait;
  std::string reason;                 // for people; why this, or what is waited for
  std::optional<TimePoint> deadline;  // wait: decide again then, whatever happens
  int count = 0;
  std::vector<int> slots;  // start: slots_per_replica for each, or none
  Generation generation;
  std::vector<MemberId> leavers;  // announce: told as well, because they are left out
  std::vector<MemberId> dismissed;
  bool failure = false;  // dismiss: counts as newcomers that failed
};

// Pure. After every change of the view, and at its deadline: call, carry out, apply(), and again
// until it says wait.
Decision decide(TimePoint now, const View& view, const RendezvousOptions& options);

// The view after the decision was carried out; start is told by started() instead.
void apply(View& view, const Decision& decision, TimePoint now);

// What happened. Unknown members, and generations that are not the sender's business, are ignored.
void started(View& view, MemberId id, TimePoint now, std::vector<int> slots = {});
void said_hello(View& view, MemberId id, TimePoint now);
void said_connected(View& view, MemberId id, uint64_t generation);
void said_switched(View& view, MemberId id, uint64_t generation, TimePoint now);
// `connecting`: the links never came up, the sender is still where it was.
void said_lost(View& view, MemberId id, uint64_t generation, bool connecting, TimePoint now);
void said_leaving(View& view, MemberId id, TimePoint now);
void said_bye(View& view, MemberId id, bool finished, TimePoint now);
void died(View& view, MemberId id, TimePoint now);
void reaped(View& view, MemberId id);  // its process is no more; after died()
void step_finished(View& view);        // one that no earlier attempt had finished
// Clamps to the bounds; forgets failed newcomers, so that they are tried again.
void set_target(View& view, int target, const std::string& cause, const RendezvousOptions& options);

}  // namespace adaptdl::launch
