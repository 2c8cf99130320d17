#pragma once

// The hosts that belong to a run, as its launcher last told all of them, and which of them may go
// on when they have lost each other: at most one side. Pure.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

struct Roster {
  struct Host {
    std::string id;  // AgentOptions::id
    std::string address;
    uint16_t port = 0;  // of that address, where it would lead the run; 0: it never does
  };

  int64_t number = 0;  // grows with each change; 0: none yet
  std::string run_id;
  std::string launcher;  // that has told it; at random
  // All hosts share the launcher's checkpoint folder. Whoever then holds its lock goes on.
  bool shared = false;
  int size = 1;  // hosts, witnesses and, if replicas run on it, the launcher's own included
  std::vector<Host> hosts;  // those with an agent, in the order in which they joined
  // The newest generation that the launcher has announced, perhaps since then (RosterFile).
  struct Announced {
    uint64_t generation = 0;  // 0: none
    std::vector<MemberId> members;
  } announced;
  bool led_here = false;  // of a file (RosterFile): its own host's launcher has written it

  const Host* find(const std::string& id) const;  // null: not in it
  bool any_may_lead() const;
};

nlohmann::json to_json(const Roster& roster);
// Throws Error.
Roster roster_from_json(const nlohmann::json& json, const char* what);

// So many of `size` hosts go on without the launcher: a majority. And the launcher with so many of
// them, its own included. Both are never possible at once: of two equal halves that of the launcher
// goes on.
constexpr int enough_without_launcher(int size) {
  return size / 2 + 1;
}
constexpr int enough_with_launcher(int size) {
  return (size + 1) / 2;
}

// Hosts of the roster that must follow a new launcher before it leads. Where they share a folder,
// its lock says that the last launcher is gone.
int needed_to_lead(const Roster& roster);

// Whether that host may keep its replicas when the launcher is lost: they may be needed.
bool may_go_on(const Roster& roster, const std::string& id);

}  // namespace adaptdl::launch
