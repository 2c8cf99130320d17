#pragma once

// The launcher's side of replicas on other hosts: agents (agent.h) connect, each offers a slot, and
// starts on it what it is told to. A replica there is one like any other to the launcher: what it
// says comes through the agent into a channel of its own. Part of an event loop: never blocks.

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <poll.h>
#include <string>
#include <vector>

#include "core/launch/hosts/agent_link.h"
#include "core/launch/run/replica.h"

namespace adaptdl::launch {

// One thread.
class AgentServer {
 public:
  // Called from serve(). A slot that has joined leaves before it joins again.
  struct Events {
    std::function<void(int slot, const std::string& host)> joined;
    // It was told to go, or is lost; `why` is a sentence's end, "was told to stop".
    std::function<void(int slot, const std::string& host, const std::string& why)> left;
  };

  // Listens. `run`: its name, which agents have to have, too. Throws Error.
  AgentServer(HostsOptions options, std::string run, Events events);
  ~AgentServer();

  uint16_t port() const;

  // What to wait for; then serve() when any of it is ready, or at deadline().
  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;
  void serve();

  // Has the agent of that slot start a replica. Throws Error when the agent is gone.
  std::unique_ptr<Replica> start(MemberId id, int slot, nlohmann::json welcome);

  // Tells all how the run ended; waits a moment until they have taken it.
  void end(int exit);

 private:
  struct Agent;
  struct Worker;
  class Process;

  void accept_all();
  std::string serve(Agent& agent);  // why it is of no more use; "" if it is
  void on_message(Agent& agent, const nlohmann::json& message);
  void on_join(Agent& agent, const nlohmann::json& message);
  void drop(Agent& agent, const std::string& why);

  const HostsOptions options_;
  const std::string run_;
  const Events events_;
  Fd listener_;
  std::vector<std::shared_ptr<Agent>> agents_;
};

}  // namespace adaptdl::launch
