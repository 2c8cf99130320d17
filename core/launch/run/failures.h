#pragma once

// Replicas that failed: reports each, and keeps what the end of the run needs.

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

  // A replica was given up, or failed to start. `before`: its state then.
  void add(MemberId id, const std::string& reason, MemberState before);
  // Its process ended. `reason`: if it is known better than from the status; else "".
  void add(MemberId id, std::string reason, const ExitStatus& status, MemberState before);
  // A replica that failed to start has no log; the error takes the place of its last log lines.
  void no_start(MemberId id, const std::string& error);

  // The replica that failed last, and why; "" if none has.
  const std::string& last() const { return last_; }
  const std::vector<std::string>& last_words() const { return last_words_; }
  // The atomic batch of the newest step. Where the system kills a replica because memory ran out,
  // half of it becomes the limit for the following generations.
  void trains_with(int64_t atomic) { atomic_ = atomic; }
  int64_t atomic_limit() const { return atomic_limit_; }  // samples; 0 = none

  // The newest failure's cause, as a word for programs.
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
  bool memory_ran_out_ = false;          // the cause of the newest failure
  int64_t atomic_ = 0, atomic_limit_ = 0;
};

}  // namespace adaptdl::launch
