#pragma once

// The launcher of one command run: one thread, one loop, as launcher.h.

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/command_environment.h"
#include "core/launch/command_state.h"
#include "core/launch/control.h"
#include "core/launch/leftovers.h"
#include "core/launch/log_writer.h"
#include "core/launch/oom.h"
#include "core/launch/output.h"
#include "core/launch/signals.h"

namespace adaptdl::launch {

class CommandLauncher {
 public:
  // Everything is borrowed. Throws Error for what is wrong before the start.
  CommandLauncher(const CommandOptions& options, Output& output, SignalCatcher& signals);

  int run();  // the exit code

 private:
  struct Process {
    Child child;
    bool told_group = false;  // its leader has ended by SIGTERM, others of its group write on
    std::optional<ExitStatus> status;
  };

  // command_launcher.cpp: the loop, and what it does
  void wait();
  void take_signals();
  void take_ends();
  bool ended(int rank, Process& process);
  void decide_all();
  bool carry_out(const CommandDecision& decision);  // false: the run is over
  void start(const CommandDecision& decision);
  void start_replica(int rank, const CommandDecision& decision,
                     const std::vector<std::string>& gpus);
  void signal_all(int number);
  void on_generation_end();
  void end(const std::string& result, int exit, const std::string& reason);

  // command_reports.cpp: what others are told
  nlohmann::json on_request(const nlohmann::json& request);
  nlohmann::json scale(const nlohmann::json& request);
  nlohmann::json status() const;
  void record(const std::string& state, bool lasting = false);
  void emit(nlohmann::json event);
  void emit_start();
  void report_failure(int rank, const ExitStatus& status);
  std::string what_next() const;

  int64_t newest_checkpoint() const;  // number of the newest folder checkpoint-N; -1: none
  int threads_for(int replicas) const;

  const CommandOptions& options_;
  Output& output_;
  SignalCatcher& signals_;
  const TimePoint begun_;
  const std::string started_;  // RFC 3339
  LogWriter logs_;
  ControlServer control_;
  CommandRules rules_;
  CommandView view_;
  OomWatch oom_;
  ReplicaRecord replicas_record_;
  ReservedPort port_;
  std::map<int, Process> processes_;  // of the present generation, by rank; those that live
  std::optional<TimePoint> deadline_;
  std::string reason_ = "starting", told_reason_, state_ = "starting", recorded_problem_;
  std::string failure_;                  // why the newest generation failed, with its last words
  std::string cause_ = "ReplicaFailed";  // of a failed run: also OutOfMemory, CannotStart
  std::optional<int> failed_with_;  // exit code of the replica that failed last, as a shell has it
  nlohmann::json end_;              // the end event, once that is known
  int64_t checkpoint_before_ = -1;
  int starts_ = 0, before_ = 0;  // generations here; replicas of the one before
  int exit_ = 1, stop_exit_ = 143;
  bool cancelled_ = false, checkpointed_ = false, over_ = false;
};

}  // namespace adaptdl::launch
