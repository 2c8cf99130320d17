#pragma once

// All replicas of a command run: those of this host, and those that agents start on others.

#include <cstdint>
#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/launch/command/command_environment.h"
#include "core/launch/command/command_processes.h"
#include "core/launch/command/command_run.h"
#include "core/launch/hosts/agent_server.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/replica.h"

namespace adaptdl::launch {

// The hosts of replicas on these slots, one each, in order of rank. `first_of`: of every slot of
// another host the first slot of that host; slots that are not there are this host's. The slots of
// a host follow one another. Pure.
std::vector<CommandHost> hosts_of_slots(const std::vector<int>& slots,
                                        const std::map<int, int>& first_of);

// One thread; part of an event loop.
class CommandReplicas {
 public:
  // Options, report and console are borrowed; `console` may be null. `hosts` counts with
  // options.hosts. Throws Error.
  CommandReplicas(const CommandOptions& options, RunReport& report, ReplicaConsole* console,
                  AgentServer::Events hosts);

  // Starts `count` replicas as the next generation, whose number is larger than `newest`, after
  // `failures` restarts because of failures. Throws Error if one of this host cannot start; then
  // none is left. One of another host that cannot start ends instead.
  void start(int count, const std::vector<int>& slots, int64_t newest, int failures);

  void signal_all(int number);  // SIGTERM, SIGINT or SIGKILL, as CommandProcesses::signal()
  std::vector<EndedReplica> take_ends();
  void reap_orphans() const { here_.reap_orphans(); }
  // Call when the whole generation has ended: its ports are free again. `restartable`: it has shown
  // that it can be restarted.
  void generation_ended(bool restartable);

  std::vector<int> ranks() const;  // of the living ones
  size_t living() const { return here_.living() + elsewhere_.size(); }
  pid_t pid(int rank) const;  // on its host; 0 while unknown
  int64_t generation() const { return here_.generation(); }
  bool restartable() const { return here_.restartable(); }
  int threads_for(int replicas) const { return here_.threads_for(replicas); }

  // As CommandProcesses.
  void explain(EndedReplica& replica);
  bool needs_pickles(const EndedReplica& replica);
  void load_pickles() { here_.load_pickles(); }
  void show_rest() { here_.show_rest(); }

  // Of several hosts. serve_hosts() calls the events.
  int hosts() const { return agents_ ? agents_->hosts() : 1; }
  uint16_t hosts_port() const { return agents_ ? agents_->port() : 0; }
  void serve_hosts();
  void end_hosts(int exit);

  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;

 private:
  struct Remote {
    std::unique_ptr<Replica> replica;
    std::string host;
    bool asked = false;
    EndedReplica said = {};
  };

  void start_elsewhere(const CommandGeneration& generation, const CommandHost& host,
                       const std::vector<int>& slots);

  const CommandOptions& options_;
  CommandProcesses here_;
  std::unique_ptr<AgentServer> agents_;
  std::map<int, Remote> elsewhere_;  // living ones, by rank
  std::vector<ReservedPort> ports_;  // AdaptDL's, then torch.distributed's
};

}  // namespace adaptdl::launch
