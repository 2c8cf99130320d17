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
  // `system_root`: of OomWatch.
  Failures(int max_restarts, const std::string& system_root, View& view, ReplicaSet& replicas,
           RunReport& report)
      : max_restarts_(max_restarts),
        view_(view),
        replicas_(replicas),
        report_(report),
        oom_(system_root) {}

  // A replica was given up, or failed to start. `before`: its state then.
  void add(MemberId id, const std::string& reason, MemberState before);
  // Its process ended. `reason`: if it is known better than from the status; else "". If the system
  // killed it because memory ran out, and the next ones will compute less at once than it did, its
  // death is excused(): it counts only once there is nothing smaller to try.
  void add(MemberId id, std::string reason, const ExitStatus& status, MemberState before);
  // A replica that failed to start has no log; the error takes the place of its last log lines.
  void no_start(MemberId id, const std::string& error);
  // Two replicas cannot reach each other, as the sentence says; neither has failed.
  void no_links(const std::string& sentence) {
    last_ = sentence;
    last_words_.clear();
  }

  // What failed last, a replica or a connection, and why; "" if nothing has.
  const std::string& last() const { return last_; }
  const std::vector<std::string>& last_words() const { return last_words_; }
  // Of the samples that a replica computes at once, in the following generations: half of what the
  // system killed one with because memory ran out. 0 = none.
  int64_t atomic_limit() const { return atomic_limit_; }

  // The newest failure's cause, as a word for programs.
  const char* cause() const { return memory_ran_out_ ? "OutOfMemory" : "ReplicaFailed"; }

 private:
  bool learn_limit(const Replica& replica);  // whether its death is excused
  void tell(MemberId id, const std::string& reason, std::optional<ExitStatus> status,
            MemberState before);
  std::string what_next(MemberState before) const;

  const int max_restarts_;
  View& view_;
  ReplicaSet& replicas_;
  RunReport& report_;
  OomWatch oom_;
  std::string last_;
  std::vector<std::string> last_words_;  // log lines
  bool memory_ran_out_ = false;          // the cause of the newest failure
  bool excused_ = false;                 // it was
  int64_t atomic_limit_ = 0;
};

}  // namespace adaptdl::launch
