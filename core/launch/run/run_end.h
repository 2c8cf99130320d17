#pragma once

// How a run ends: asks replicas to write a checkpoint, kills replicas, and watches the deadline.

#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/event_stream.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

struct Ending {
  std::string result;  // finished, stopped, cancelled, failed
  int exit = 0;
  std::string reason;       // for people; "" when there is nothing to explain
  bool repair = false;      // members that lose others meanwhile form a new generation
  bool checkpoint = false;  // a checkpoint was requested
  bool last_words = false;  // append the log lines of the replica that failed last to the reason
};

// One thread.
class RunEnd {
 public:
  // Everything is borrowed.
  RunEnd(const RunOptions& options, View& view, ReplicaSet& replicas, const EventStream& stream,
         RunReport& report)
      : options_(options), view_(view), replicas_(replicas), stream_(stream), report_(report) {}

  // How the run ends, once that is known; a later ending replaces an earlier one.
  const std::optional<Ending>& ending() const { return ending_; }
  bool is(const char* result) const { return ending_ && ending_->result == result; }
  // Whether the rendezvous still decides.
  bool members_matter() const { return !ending_ || ending_->repair; }

  void begin(Ending ending);
  void at_once();  // end without a checkpoint after all
  // Training is finished, and the program's own main() goes on: for as long as rank 0's does.
  bool in_main() const;
  // How that main() ended, if not with exit code 0: so has the run, though it is finished.
  void main_ended(const char* result, int exit, std::string reason);
  // After ending() is known and all replicas are gone.
  const Ending& outcome() const { return is("finished") && main_ended_ ? *main_ended_ : *ending_; }

  // Kills the replicas that have not ended in time. Call when a replica has ended, and at the
  // deadline.
  void check();
  // Replicas that end together and save get more time (kLongestSave).
  TimePoint deadline() const;

 private:
  // Whether replicas end by themselves, and then within the grace.
  bool together() const { return ending_->result == "finished" || ending_->checkpoint; }
  Seconds grace() const { return Seconds(options_.grace_s); }
  void kill_all();

  const RunOptions& options_;
  View& view_;
  ReplicaSet& replicas_;
  const EventStream& stream_;
  RunReport& report_;
  std::optional<Ending> ending_;
  TimePoint begun_at_;
  TimePoint kill_at_ = TimePoint::max();  // replicas that have not ended by then are killed
  bool told_of_main_ = false;
  std::optional<Ending> main_ended_;
};

}  // namespace adaptdl::launch
