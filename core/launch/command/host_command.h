#pragma once

// A command's replicas on an agent's host. What the launcher says of them, beside agent_link.h:
//   start   its `invitation` is {number, replicas, hosts, failures, port, torch_port, load_pickles,
//           host: {number, first_rank, replicas}}: CommandGeneration and CommandHost. `member` is
//           the rank. The command itself is the agent's own
//   tell    its `message` is {type: "terminate", interrupt}: SIGTERM, or SIGINT if `interrupt`
// What they say: `message` is {type: "failed", error, log, pickles}, before `ended`. error:
// {message, traceback, at_s} of ProgramError, or null; pickles: CommandProcesses::needs_pickles().

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "core/launch/command/command_processes.h"
#include "core/launch/command/command_run.h"
#include "core/launch/hosts/host_replicas.h"
#include "core/launch/io/replica_console.h"

namespace adaptdl::launch {

nlohmann::json invitation_of(const CommandGeneration& generation, const CommandHost& host);

// Reads `failed` into the replica. Throws Error.
void read_failure(const nlohmann::json& message, EndedReplica& replica);

// One thread.
class HostCommand : public HostReplicas {
 public:
  // The options and `talk` are borrowed. Throws Error.
  HostCommand(const CommandOptions& options, const Talk& talk, Post post);
  ~HostCommand() override;  // shows what the replicas have written; waits only briefly

  bool empty() const override { return processes_.living() == 0; }
  void add_waits(std::vector<pollfd>& waits) const override { processes_.add_waits(waits); }
  TimePoint deadline() const override { return processes_.deadline(); }

  void start(MemberId member, int slot, const nlohmann::json& invitation,
             const std::string& launcher) override;
  void tell(MemberId member, nlohmann::json message) override;
  void kill(MemberId member) override;
  void kill_all() override;
  void take(bool children) override;
  void tell_all(Channel& /*link*/) override {}  // they end with their launcher

 private:
  const CommandOptions& options_;
  const Talk& talk_;
  const Post post_;
  std::optional<ReplicaConsole> console_;
  CommandProcesses processes_;
};

}  // namespace adaptdl::launch
