#pragma once

// Names the replicas that are much slower than the others (straggler_watch.h), with the evidence,
// and on request (--replace-stragglers) has another replica take the place of one.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/rendezvous.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/straggler_watch.h"

namespace adaptdl::launch {

// One thread.
class Stragglers {
 public:
  // A replica is replaced at most so often: each time costs two rescales.
  static constexpr std::chrono::minutes kReplaceEvery{5};

  // What it looks at and changes; borrowed.
  struct Subjects {
    View& view;
    RendezvousOptions& rendezvous;
    const ReplicaSet& replicas;
    RunReport& report;
  };
  Stragglers(bool replaces, const Subjects& subjects) : replaces_(replaces), subjects_(subjects) {}

  // A message `pace` (protocol.h). A replica that is to be replaced becomes one that leaves.
  void pace(const nlohmann::json& message);

  // Call after every change of the view.
  void check();

  std::vector<StragglerFacts> facts() const;  // those that are named now

 private:
  // A replica was asked to leave. What its successor brings is known in a window of as many
  // replicas as before.
  struct Replacement {
    StragglerFacts replaced;
    std::vector<MemberId> before;  // members
    double samples_per_s = 0;
    TimePoint at;
  };

  StragglerFacts facts_of(const char* state, const Straggler& evidence) const;
  void tell(const std::vector<StragglerWatch::News>& news);
  void consider(double samples_per_s);
  void replace(const Straggler& straggler, double samples_per_s);
  void check_replacement(double samples_per_s);
  bool is_hopeless(const Member& member) const;
  bool has_other_place() const;

  const bool replaces_;
  const Subjects subjects_;
  StragglerWatch watch_;
  uint64_t generation_ = 0;
  std::optional<Replacement> replacement_;  // its result is not known yet
  std::optional<TimePoint> replaced_at_;    // the last one
  std::set<MemberId> successors_;           // took the place of a straggler
  std::set<MemberId> kept_;                 // are not replaced, as was told
};

}  // namespace adaptdl::launch
