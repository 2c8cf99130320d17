#pragma once

// The processes of a command run's replicas: one generation at a time, each replica a process group
// with a log of its own, recorded on disk for the launcher that comes after a crash (leftovers.h).

#include <cstdint>
#include <map>
#include <poll.h>
#include <string>
#include <vector>

#include "core/base/process.h"
#include "core/launch/command/command_environment.h"
#include "core/launch/command/command_run.h"
#include "core/launch/command/command_state.h"
#include "core/launch/command/leftovers.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/io/run_report.h"

namespace adaptdl::launch {

// One thread.
class CommandProcesses {
 public:
  // Both are borrowed. Kills what an earlier launcher of this folder has left. Throws Error.
  CommandProcesses(const CommandOptions& options, RunReport& report);

  // Starts `count` replicas as the next generation, whose number is larger than `newest`. Throws
  // Error; then none is left.
  void start(int count, const std::vector<int>& slots, int64_t newest);

  // SIGTERM is for the program itself, as in a pod: helpers that it has started would take it too.
  // SIGKILL is for all.
  void signal_all(int number);

  // Tells the view which replicas have ended, each with all of its group.
  void take_ends(CommandView& view);
  // All of the generation have ended: its port is free again.
  void generation_ended() { port_ = {}; }

  int64_t generation() const { return record_.generation; }  // newest number; -1: none
  size_t living() const { return processes_.size(); }
  std::vector<int> ranks() const;  // of those that live
  pid_t pid(int rank) const { return processes_.at(rank).child.pid(); }
  int threads_for(int replicas) const;  // each of so many may use; >= 1

  // The last lines that it wrote; waits no more than a moment for them.
  std::vector<std::string> last_lines(int rank);

  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;

 private:
  struct Process {
    Child child;
    bool told_group = false;  // its leader has ended by SIGTERM, others of its group write on
    std::optional<ExitStatus> status;
  };

  void start_replica(int rank, int count, const std::vector<int>& slots,
                     const std::vector<std::string>& gpus);
  bool ended(Process& process, const CommandView& view);

  const CommandOptions& options_;
  LogWriter logs_;
  ReplicaRecord record_;
  ReservedPort port_;
  std::map<int, Process> processes_;  // of the present generation, by rank; those that live
};

}  // namespace adaptdl::launch
