#pragma once

// Hosts that find the leading one by a folder that they share: FOLDER/leader.json says where it
// listens and FOLDER/hosts.key is the run's key, which whoever comes first makes.

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/hosts/agent.h"
#include "core/net/addresses.h"

namespace adaptdl::launch {

class FolderMeeting {
 public:
  // Creates the folder. `start`: as ParallelTask has it. Hosts of another start are not met.
  FolderMeeting(std::string folder, std::string start);

  std::string key() const;  // of the run. Throws Error
  const std::string& folder() const { return folder_; }

  // The leader. begin(): forgets the end of an earlier run; call it at once. lead(): listens at
  // this port of these addresses. end(): the run has ended, also for hosts that come only then.
  // Throw Error.
  void begin() const;
  void forget() const;  // whatever the file says
  void lead(const std::vector<HostAddress>& addresses, uint16_t port) const;
  void end(int exit) const;

  // The other hosts: an address of the leader that answers. Throws Error if none does, or if there
  // is no leader yet; and RunEnded. Takes a few seconds at most.
  LauncherAddress find() const;

 private:
  std::string file() const;
  nlohmann::json read_place() const;

  const std::string folder_, start_;
  const TimePoint begun_ = Monotonic::now();
};

}  // namespace adaptdl::launch
