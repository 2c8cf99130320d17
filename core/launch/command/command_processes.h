#pragma once

// The processes of a command run's replicas on this host. One generation runs at a time. Each
// replica is a process group with a log of its own, recorded on disk for the next launcher after a
// crash (leftovers.h).

#include <cstdint>
#include <map>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "core/base/process.h"
#include "core/launch/command/command_environment.h"
#include "core/launch/command/command_run.h"
#include "core/launch/command/leftovers.h"
#include "core/launch/command/program_error.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/oom.h"

namespace adaptdl::launch {

// One thread.
class CommandProcesses {
 public:
  // Options and console are borrowed; `console` may be null. Kills the processes that an earlier
  // launcher of this folder left. Throws Error.
  CommandProcesses(const CommandOptions& options, ReplicasFile file, const Talk& talk,
                   ReplicaConsole* console);

  // Begins a generation, of which this host has `host`'s part; `rank_0`: CommandPlace::rank_0.
  // Requires: none lives. Throws Error.
  void begin(const CommandGeneration& generation, const CommandHost& host, std::string rank_0);
  // Starts one of its replicas. Throws Error.
  void start(int rank, const std::vector<int>& slots);

  // SIGTERM goes to the program itself, as in a pod: its helpers would receive it too. SIGKILL goes
  // to the whole process group, and so does SIGINT, as from a terminal. But a program that catches
  // SIGTERM, has started one that does, or does not catch SIGINT, and a shell get SIGTERM instead
  // of SIGINT. Nothing happens if it does not live.
  void signal(int rank, int number);
  void signal_all(int number);
  // SIGKILL, and forgets them.
  void abandon();

  // The replicas that have ended, with their whole process groups, in the order of their ends.
  std::vector<EndedReplica> take_ends();
  // As process 1, which inherits them: call after take_ends() when a child has changed.
  void reap_orphans() const;
  // Tells the next launcher that the program has shown that it can be restarted.
  void can_restart();

  int64_t generation() const { return record_.generation; }  // newest number; -1: none
  bool restartable() const { return record_.restartable; }   // also by an earlier launcher
  bool loads_pickles() const { return record_.load_pickles; }
  size_t living() const { return processes_.size(); }
  std::vector<int> ranks() const;  // of the living ones
  pid_t pid(int rank) const { return processes_.at(rank).child.pid(); }
  int threads_for(int replicas) const;  // for each of so many replicas here; >= 1

  // Adds what the replica said of its failure, if it did, and its last log lines; waits for them
  // only briefly.
  void explain(EndedReplica& replica);
  // Whether the replica, which has failed, could not read its own AdaptDL checkpoint because
  // torch.load refuses pickles. No if the user has decided that, or load_pickles() was called.
  bool needs_pickles(int rank);
  // From the next start on, also by a later launcher, torch.load reads pickles.
  void load_pickles();
  // Shows what the replicas of the generation have written; waits only briefly.
  void show_rest();

  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;

 private:
  struct Process {
    Child child;
    int told = 0;  // the last signal that it was sent; 0: none
    bool told_group =
        false;  // its leader was ended by that signal; others of its group are still writing
    std::optional<ExitStatus> status;
  };

  std::string error_file(int rank) const;
  bool ended(Process& process);

  const CommandOptions& options_;
  ReplicaConsole* const console_;
  const ReplicasFile file_;
  LogWriter logs_;
  OomWatch oom_;
  const std::vector<std::string> gpus_;  // of the machine, by slot: one that goes moves no other
  ReplicaRecord record_;
  CommandGeneration generation_;  // the newest one
  CommandHost host_;
  std::string rank_0_;
  std::map<int, Process> processes_;  // living ones of the present generation, by rank
};

}  // namespace adaptdl::launch
