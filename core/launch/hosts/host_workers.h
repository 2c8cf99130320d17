#pragma once

// Replicas of the runtime library on an agent's host: starts, watches and ends them, relays what
// they and the launcher say, and remembers it for a launcher that follows.

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <string>
#include <vector>

#include "core/launch/hosts/host_replicas.h"
#include "core/launch/hosts/replica_memory.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/oom.h"
#include "core/launch/run/replica.h"
#include "core/launch/run/replica_starter.h"

namespace adaptdl::launch {

class HostWorkers : public HostReplicas {
 public:
  // `options` and `talk` are borrowed. Throws Error if the program or the worker is unusable.
  HostWorkers(const RunOptions& options, const Talk& talk, Post post);

  bool empty() const override { return replicas_.empty(); }
  void add_waits(std::vector<pollfd>& waits) const override;

  void start(MemberId member, int slot, const nlohmann::json& invitation,
             const std::string& launcher) override;
  void tell(MemberId member, nlohmann::json message) override;
  void passed_on(MemberId member, uint64_t events) override;
  void kill(MemberId member) override;
  void kill_all() override;
  void take(bool children) override;
  void tell_all(Channel& link) override;

 private:
  struct Worker {
    LocalProcess process;
    Channel channel;
    int slot;
    ReplicaMemory memory = {};
    bool open = true;
  };

  void hear(MemberId member, Worker& worker);

  const RunOptions& options_;
  const Talk& talk_;
  const Post post_;
  LogWriter logs_;
  ReplicaStarter starter_;
  OomWatch oom_;  // the launcher cannot see the memory of this host
  std::map<MemberId, std::unique_ptr<Worker>> replicas_;
};

}  // namespace adaptdl::launch
