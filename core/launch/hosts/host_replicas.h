#pragma once

// The replicas that run on an agent's host: starts, watches and ends them, relays what they and the
// launcher say, and remembers it for a launcher that follows.

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <vector>

#include "core/launch/hosts/replica_memory.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/oom.h"
#include "core/launch/run/replica.h"
#include "core/launch/run/replica_starter.h"

namespace adaptdl::launch {

// One thread; part of an event loop: never blocks.
class HostReplicas {
 public:
  // Sends that to the launcher (agent_link.h); false if there is none.
  using Post = std::function<bool(const nlohmann::json& message)>;

  // `options` and `talk` are borrowed. Throws Error if the program or the worker is unusable.
  HostReplicas(const RunOptions& options, const Talk& talk, Post post);

  bool empty() const { return replicas_.empty(); }
  void add_waits(std::vector<pollfd>& waits) const;

  void start(MemberId member, int slot, const nlohmann::json& invitation);
  void tell(MemberId member, nlohmann::json message);
  void kill(MemberId member);
  void kill_all();

  // Takes what they have said, and their ends. `children`: SIGCHLD came.
  void take(bool children);

  // To the launcher that follows another one: they live, and what they know.
  void tell_all(Channel& link);

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
