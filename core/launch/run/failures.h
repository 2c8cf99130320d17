#pragma once

// Replicas that failed: what is told of each, and what remains of it for the end of the run.

#include <optional>
#include <string>
#include <vector>

#include "core/launch/io/run_report.h"
#include "core/launch/oom.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"

namespace adaptdl::launch {

// One thread.
class Failures {
 public:
  // Everything is borrowed. `max_restarts`: as in RunOptions.
  Failures(int max_restarts, const View& view, ReplicaSet& replicas, RunReport& report)
      : max_restarts_(max_restarts), view_(view), replicas_(replicas), report_(report) {}

  // A replica was given up, or could not be started, when it was in that state.
  void add(MemberId id, const std::string& reason, MemberState before);
  // Its process ended so. `reason`: known better than from the status; "" if not.
  void add(MemberId id, std::string reason, const ExitStatus& status, MemberState before);
  // What could not be started has no log; the error is its last words.
  void no_start(MemberId id, const std::string& error);

  // Who failed last, and of what; "" if none has.
  const std::string& last() const { return last_; }
  const std::vector<std::string>& last_words() const { return last_words_; }
  // For programs.
  const char* cause() const { return memory_ran_out_ ? "OutOfMemory" : "ReplicaFailed"; }

 private:
  void tell(MemberId id, const std::string& reason, std::optional<ExitStatus> status,
            MemberState before);
  std::string what_next(MemberState before) const;

  const int max_restarts_;
  const View& view_;
  ReplicaSet& replicas_;
  RunReport& report_;
  OomWatch oom_;
  std::string last_;
  std::vector<std::string> last_words_;  // log lines
  bool memory_ran_out_ = false;          // the newest one's cause
};

}  // namespace adaptdl::launch
