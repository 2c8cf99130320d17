#pragma once

// Handles the replicas' messages and ends: changes the membership, emits events, and ends the run.

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "core/job/hints.h"
#include "core/launch/run/checkpoint_mirror.h"
#include "core/launch/run/event_stream.h"
#include "core/launch/run/failures.h"
#include "core/launch/run/hung_replicas.h"
#include "core/launch/run/link_news.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/run.h"
#include "core/launch/run/run_end.h"
#include "core/launch/run/slow_links.h"
#include "core/launch/run/stragglers.h"

namespace adaptdl::launch {

// One thread.
class Conversation : public ReplicaListener {
 public:
  // The objects that it changes; borrowed.
  struct Subjects {
    View& view;
    const ReplicaSet& replicas;
    EventStream& stream;
    HungReplicas& hung;
    Stragglers& stragglers;
    SlowLinks& slow_links;
    Failures& failures;
    RunEnd& end;
    RunReport& report;
    CheckpointMirror* mirror;  // null: none
  };
  Conversation(const RunOptions& options, const Subjects& subjects)
      : options_(options), subjects_(subjects), links_(subjects.report) {}

  void on_message(Replica& replica, const nlohmann::json& message) override;
  void on_closed(Replica& replica) override;
  void on_exit(Replica& replica, const ExitStatus& status) override;
  void on_stop(Replica& replica, bool stopped) override;

  // The newest facts that the job has reported for its scheduler; null if none.
  nlohmann::json hints() const;
  // Rank 0's last summary of the training.
  const nlohmann::json& summary() const { return summary_; }
  // Whether a checkpoint of the final state is on disk.
  bool checkpointed() const { return checkpointed_; }
  void went_on() { checkpointed_ = false; }  // training continued from it: it is not the final one

 private:
  void on_hello(Replica& replica, const nlohmann::json& message);
  void on_bye(Replica& replica, const nlohmann::json& message);
  void on_fatal(Replica& replica, const nlohmann::json& message);
  void on_unreachable(const nlohmann::json& message);
  void on_copied(const nlohmann::json& message);
  void on_gpu(MemberId member, const nlohmann::json& message);
  void on_hints(const nlohmann::json& message);

  const RunOptions& options_;
  const Subjects subjects_;
  LinkNews links_;
  std::optional<SchedulingHints> hints_;
  nlohmann::json summary_ = nlohmann::json::object();
  bool checkpointed_ = false;
  std::set<std::string> copying_hosts_;  // by name: those that the user knows of
  // The newest exception in a step: which step, on which replica, and its words.
  int64_t failed_step_ = 0;
  MemberId failed_member_ = 0;
  std::string failed_with_;
};

}  // namespace adaptdl::launch
