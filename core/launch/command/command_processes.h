#pragma once

// The processes of a command run's replicas. One generation runs at a time. Each replica is a
// process group with a log of its own, recorded on disk for the next launcher after a crash
// (leftovers.h).

#include <cstdint>
#include <map>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "core/base/process.h"
#include "core/launch/command/command_environment.h"
#include "core/launch/command/command_run.h"
#include "core/launch/command/command_state.h"
#include "core/launch/command/leftovers.h"
#include "core/launch/command/program_error.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/io/run_report.h"

namespace adaptdl::launch {

// One thread.
class CommandProcesses {
 public:
  // All are borrowed; `console` may be null. Kills the processes that an earlier launcher of this
  // folder left. Throws Error.
  CommandProcesses(const CommandOptions& options, RunReport& report, ReplicaConsole* console);

  // Starts `count` replicas as the next generation, whose number is larger than `newest`, after
  // `failures` restarts because of failures. Throws Error if one cannot start; then none is left.
  void start(int count, const std::vector<int>& slots, int64_t newest, int failures);

  // SIGTERM goes to the program itself, as in a pod: its helpers would receive it too. SIGKILL goes
  // to the whole process groups.
  void signal_all(int number);

  // Tells the view which replicas have ended, with their whole process groups; returns their ranks
  // in the order of their ends.
  std::vector<int> take_ends(CommandView& view);
  // Call when the whole generation has ended: its ports are free again. `restartable`: it has shown
  // that it can be restarted.
  void generation_ended(bool restartable);

  int64_t generation() const { return record_.generation; }  // newest number; -1: none
  bool restartable() const { return record_.restartable; }   // also by an earlier launcher
  size_t living() const { return processes_.size(); }
  std::vector<int> ranks() const;  // of the living ones
  pid_t pid(int rank) const { return processes_.at(rank).child.pid(); }
  int threads_for(int replicas) const;  // for each of so many replicas; >= 1

  // The replica's last log lines; waits for them only briefly.
  std::vector<std::string> last_lines(int rank);
  // What the replica said of its failure, if it did.
  std::optional<ProgramError> error_of(int rank) const;
  // Whether the replica, which has failed, could not read its own AdaptDL checkpoint because
  // torch.load refuses pickles. No if the user has decided that, or load_pickles() was called.
  bool needs_pickles(int rank);
  // From the next start on, also by a later launcher, torch.load reads pickles.
  void load_pickles();
  // Shows what the replicas of 0 to `count` - 1 have written; waits only briefly.
  void show_rest(int count);

  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;

 private:
  struct Process {
    Child child;
    bool told_group =
        false;  // its leader was ended by SIGTERM; others of its group are still writing
    std::optional<ExitStatus> status;
  };

  void start_replica(int rank, int count, const std::vector<int>& slots,
                     const std::vector<std::string>& gpus);
  std::string error_file(int rank) const;
  bool ended(Process& process, const CommandView& view);

  const CommandOptions& options_;
  ReplicaConsole* const console_;
  const Fd lock_;  // of the folder
  LogWriter logs_;
  ReplicaRecord record_;
  std::vector<ReservedPort> ports_;  // AdaptDL's, then torch.distributed's
  int failures_ = 0;
  std::map<int, Process> processes_;  // living ones of the present generation, by rank
};

}  // namespace adaptdl::launch
