#pragma once

// A launcher that takes the place of a lost one: a process of its own, beside the agent of a host,
// with the same command line.

#include <optional>
#include <string>

#include "core/base/fd.h"
#include "core/base/process.h"
#include "core/launch/hosts/roster.h"

namespace adaptdl::launch {

struct Successor {
  Roster roster;       // of the lost launcher
  std::string secret;  // HostsOptions
  Fd listener;
};

// Starts it. Call from a thread that lives as long as this process. Throws Error.
Child start_successor(int listener, const Roster& roster, const std::string& secret);

// What this process is to take over, if start_successor() has started it. Call once. Throws Error.
std::optional<Successor> take_succession();

}  // namespace adaptdl::launch
