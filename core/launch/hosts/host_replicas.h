#pragma once

// The replicas that run on an agent's host, whatever they are: programs of the runtime library
// (host_workers.h), or a command's (host_command.h).

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <poll.h>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

// One thread; part of an event loop: never blocks for long. Messages as in agent_link.h.
class HostReplicas {
 public:
  // Sends that to the launcher; false if there is none.
  using Post = std::function<bool(const nlohmann::json& message)>;

  virtual ~HostReplicas() = default;

  virtual bool empty() const = 0;
  virtual void add_waits(std::vector<pollfd>& waits) const = 0;
  virtual TimePoint deadline() const { return TimePoint::max(); }  // of the next take()

  // `launcher`: the name or address at which this host reaches the launcher's. Throws Error for an
  // invalid invitation.
  virtual void start(MemberId member, int slot, const nlohmann::json& invitation,
                     const std::string& launcher) = 0;
  virtual void tell(MemberId member, nlohmann::json message) = 0;
  virtual void passed_on(MemberId /*member*/, uint64_t /*events*/) {}
  virtual void kill(MemberId member) = 0;
  virtual void kill_all() = 0;

  // Takes what they have said, and their ends. `children`: SIGCHLD came.
  virtual void take(bool children) = 0;

  // To the launcher that follows another one: they live, and what they know.
  virtual void tell_all(Channel& link) = 0;
};

// Of a witness.
class NoReplicas : public HostReplicas {
 public:
  bool empty() const override { return true; }
  void add_waits(std::vector<pollfd>& /*waits*/) const override {}
  void start(MemberId /*member*/, int /*slot*/, const nlohmann::json& /*invitation*/,
             const std::string& /*launcher*/) override {}
  void tell(MemberId /*member*/, nlohmann::json /*message*/) override {}
  void kill(MemberId /*member*/) override {}
  void kill_all() override {}
  void take(bool /*children*/) override {}
  void tell_all(Channel& /*link*/) override {}
};

}  // namespace adaptdl::launch
