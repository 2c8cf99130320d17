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
  void said(const nlohmann::json& message);
  // The launcher has passed on so many of its events, counted from the first one that this launcher
  // got. All others are kept, the newest of them.
  void passed_on(uint64_t events);

  // Generations that it was told, oldest first: {generation, immediate, members: [id], cause}.
  nlohmann::json generations() const;
  // What it has said, in an order that it might have been said in.
  nlohmann::json messages() const;
  // Another launcher has got all that.
  void told_again() { forgotten_ = 0; }

 private:
  void forget_oldest();

  std::map<uint64_t, nlohmann::json> generations_;
  std::map<std::string, nlohmann::json> newest_;  // by type
  std::deque<nlohmann::json> events_;
  uint64_t forgotten_ = 0;  // of the events that the present launcher got
};

}  // namespace adaptdl::launch
