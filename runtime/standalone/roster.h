#pragma once

// What rank 0 tells replicas that nobody has launched, in the messages of
// core/launch/io/protocol.h: who they are, when their generation begins, and when all of them end.
// Nobody replaces a replica here, so all end when one does: after a checkpoint if training had
// begun. One for which the others wait too long is told to end, and counts as dead.
//
// Before these messages each replica sends
//   join     {protocol, purpose, rank, replicas, restarts, job}
// and is answered by a welcome, or by
//   refused  {reason}.
// Members are numbered by their first ranks. A stop has a cause, for people.
//
// Pure: the caller has sockets and a clock. One thread.

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/hang_watch.h"
#include "runtime/standalone/place.h"

namespace adaptdl::standalone {

// A replica's request to join; the other side's is equal except for the rank.
nlohmann::json join_message(const Place& place, const std::string& purpose);

class Roster {
 public:
  using Outbox = std::vector<std::pair<int, nlohmann::json>>;  // member, message

  // How long a broken generation waits for news of a death.
  static constexpr std::chrono::milliseconds kGrace{500};

  Roster(Place place, std::string purpose, std::string secret, TimePoint now);

  // Takes a join from anybody: the rank it gets, or why it is refused. The answer is made here,
  // too.
  struct Admission {
    int rank = -1;  // -1 = refused
    nlohmann::json answer;
  };
  Admission admit(const nlohmann::json& join);

  // Of a member. Throws nlohmann's exceptions if it is no message of the protocol.
  Outbox received(int member, const nlohmann::json& message, TimePoint now);
  Outbox closed(int member);  // its connection
  Outbox elapsed(TimePoint now);
  TimePoint deadline() const;  // of elapsed()

  int replicas() const { return place_.replicas; }
  std::vector<int> missing() const;  // ranks that have not joined
  // All that have joined are gone, or have said that they end.
  bool all_but_first_ended() const;
  bool first_ended() const { return members_.contains(0) && members_.at(0).ended; }
  // Rank 0 is gone without a word: nobody may wait for it.
  bool first_lost() const { return first_lost_; }

 private:
  struct Member {
    nlohmann::json hello;  // null until then
    bool ended = false;
    bool waits = false;  // for others, in the present generation
    bool saves = false;  // a model: the others wait for that as long as it takes
  };
  std::vector<int> present() const;  // members that have not ended
  Outbox generation(const std::string& cause);
  Outbox stop(bool checkpoint, int exit, const std::string& cause);
  Outbox died(int member, const std::string& how);
  Outbox end_hung(TimePoint now);

  const Place place_;
  const std::string purpose_, secret_;
  const TimePoint patience_;
  std::map<int, Member> members_;
  uint64_t generation_ = 0;  // 0: it has not begun
  bool stopped_ = false, first_lost_ = false;
  int breakdowns_ = 0;               // without a step in between
  std::optional<TimePoint> broken_;  // since when members report the generation lost
  std::string reason_;
  HangWatch watch_;  // of those for whom others wait
};

}  // namespace adaptdl::standalone
