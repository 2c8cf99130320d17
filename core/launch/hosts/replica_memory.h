#pragma once

// What a replica was told and has said, as far as a launcher must know it that takes over from
// another one: the agent of its host tells it again.

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace adaptdl::launch {

// One thread. Messages are those of protocol.h.
class ReplicaMemory {
 public:
  void told(const nlohmann::json& message);
  // `heard`: a launcher has got it. Otherwise its events are kept as well, the newest of them.
  void said(const nlohmann::json& message, bool heard);

  // Generations that it was told, oldest first: {generation, immediate, members: [id], cause}.
  nlohmann::json generations() const;
  // What it has said, in an order that it might have been said in.
  nlohmann::json messages() const;
  // A launcher has got all that.
  void heard() { events_.clear(); }

 private:
  std::map<uint64_t, nlohmann::json> generations_;
  std::map<std::string, nlohmann::json> newest_;  // by type
  std::deque<nlohmann::json> events_;
};

}  // namespace adaptdl::launch
