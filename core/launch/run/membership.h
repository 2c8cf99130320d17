#pragma once

// What is known about the members of a run, and what messages and deaths do to it. Pure, as all of
// the rendezvous (rendezvous.h), which judges it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/io/protocol.h"

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

  bool holds(MemberId id) const;
};

// All that is known. Changed only by the functions below, apply() and set_target().
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
  int trained() const;                                  // living members with state
};

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
// One or more newcomers came to nothing: the next try has to wait.
void newcomers_failed(View& view, TimePoint now);

}  // namespace adaptdl::launch
