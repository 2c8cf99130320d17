#pragma once

// The launcher's side of replicas on other hosts. Agents (agent.h) connect; each offers some slots,
// and starts the requested replicas on them. The launcher treats such a replica like any other: the
// agent forwards its messages into a channel of its own. Part of an event loop: never blocks.

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
  using Slots = std::vector<int>;  // the numbers after this host's own, none of them twice

  // Called from serve().
  struct Events {
    std::function<void(const Slots& slots, const std::string& host)> joined;
    // The agent was told to stop, or is lost; `why` ends a sentence, such as "was told to stop".
    std::function<void(const Slots& slots, const std::string& host, const std::string& why)> left;
  };

  // Starts to listen. `run`: the run's name, which agents must know. Throws Error.
  AgentServer(HostsOptions options, const std::string& run, Events events);
  ~AgentServer();

  uint16_t port() const;

  // Add the descriptors to poll; then call serve() when one is ready, or at deadline().
  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;
  void serve();

  int hosts() const;  // that belong to the run now, this one included

  // Has the agent of that slot start a replica; `invitation`: ReplicaStarter::invitation(). Throws
  // Error if the agent has disconnected.
  std::unique_ptr<Replica> start(MemberId id, int slot, nlohmann::json invitation);

  // Tells all agents how the run ended; waits briefly until they have read it.
  void end(int exit);

 private:
  struct Agent;
  struct Worker;
  class Process;

  void accept_all();
  std::string serve(Agent& agent);  // why it must be dropped; "" if it is fine
  void on_message(Agent& agent, const nlohmann::json& message);
  void on_join(Agent& agent, const nlohmann::json& message);
  std::string refusal(const nlohmann::json& join) const;  // "": none
  void drop(Agent& agent, const std::string& why);

  const HostsOptions options_;
  const TlsKey key_;
  const Events events_;
  Fd listener_;
  std::vector<std::shared_ptr<Agent>> agents_;
  int next_slot_;
};

}  // namespace adaptdl::launch
