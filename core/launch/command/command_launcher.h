#pragma once

// The launcher of one command run: one thread, one event loop, as in launcher.h.

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/signals.h"
#include "core/launch/command/command_replicas.h"
#include "core/launch/command/command_run.h"
#include "core/launch/command/command_state.h"
#include "core/launch/command/program_error.h"
#include "core/launch/hosts/agent_server.h"
#include "core/launch/io/control.h"
#include "core/launch/io/run_report.h"
#include "core/launch/io/run_requests.h"

namespace adaptdl::launch {

class CommandLauncher : private RunControl {
 public:
  // Borrows all but the options; `console` may be null. Throws Error for a problem found before the
  // start.
  CommandLauncher(const CommandOptions& options, RunReport& report, SignalCatcher& signals,
                  ReplicaConsole* console);

  int run();  // the exit code

 private:
  // Why the newest generation failed.
  struct Failure {
    std::string sentence;  // with its last log lines; "" if it has not failed
    std::string cause = "ReplicaFailed";
    std::optional<int> exit_code;  // of the replica that failed first, as a shell reports it
  };

  // The event loop.
  void wait();
  void take_signals();
  void take_ends();
  void on_generation_end();

  // Several hosts.
  AgentServer::Events host_events();
  void set_host_slots();
  bool waits_for_hosts();

  // Decisions, and carrying them out.
  void decide_all();
  void carry_out(const CommandDecision& decision);
  void terminate(const std::string& reason);
  void start(const CommandDecision& decision);
  void cannot_start(const std::string& reason, std::optional<int> program_exit);
  void load_pickles(const EndedReplica& refused);
  void restart_without(const EndedReplica& lost);
  void add_failure(bool forgiven);
  void end(const std::string& result, int exit, const std::string& reason);

  // Requests.
  nlohmann::json status() const override;
  std::string ending() const override;
  RunSlots slots() const override;
  int scale(const ScaleRequest& request) override;
  bool cancel(bool checkpoint) override;

  RecordFacts facts() const;
  int64_t newest_checkpoint() const { return launch::newest_checkpoint(options_.checkpoint_dir); }

  CommandOptions options_;  // the supervisor's URL may change
  RunReport& report_;
  SignalCatcher& signals_;
  const CommandRules rules_;
  CommandView view_;
  ControlServer control_;  // first: its owner may kill the processes that an earlier launcher left
  CommandReplicas replicas_;
  std::optional<int> asked_for_;       // replicas, by somebody
  std::optional<TimePoint> deadline_;  // of the newest decision
  std::string reason_ = "starting", told_reason_;
  std::string asked_;          // why the replicas were last asked to end
  std::string cause_;          // of their new number, as in adaptdl-events(5)
  std::string finish_reason_;  // what a finished run has to explain
  Failure failure_;
  std::vector<EndedReplica> ended_;  // of the present generation, in order of their ends
  int failed_ = 0;                   // generations that failed
  int64_t checkpoint_before_ = -1;   // newest when the generation started
  bool checkpointed_ = false;        // the previous generation wrote one
  int starts_ = 0, before_ = 0;      // generations started here; replicas of the previous one
  int stop_exit_ = 143;
  int stop_signal_ = SIGTERM;  // for the replicas: SIGTERM, or SIGINT if that is why the run stops
  TimePoint stopped_at_;       // when the run was asked to stop
  bool child_signal_ = false;
  bool cancelled_ = false;
  std::optional<int> exit_;  // once the run is over
};

}  // namespace adaptdl::launch
