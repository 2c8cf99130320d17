#pragma once

// A host's part of a run whose launcher is elsewhere: finds the launcher, offers it this host's
// slot, and starts, watches and ends the replicas that it asks for.

#include <cstdint>
#include <functional>
#include <string>

#include "core/launch/hosts/agent_link.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

struct LauncherAddress {
  std::string host;
  uint16_t port = 0;
};

struct AgentOptions {
  // Its program and how it is started here; its name; the secret among `hosts`; where its logs go.
  RunOptions run;
  int slot = 1;      // unlike that of any other host of the run
  std::string host;  // for people
  // Where the launcher is. Called again and again while there is no connection, so what it throws
  // (Error) is told and tried again. Should take no more than some seconds.
  std::function<LauncherAddress()> find_launcher;
};

// Runs until the launcher says how the run ended (returns its exit code), or until SIGTERM or
// SIGINT (128 + its number): the replicas here then leave the others first, for which they have
// run.grace_s; the second signal kills them. Without its launcher it ends the replicas and looks
// for one. Call from the main thread; signals, processes and process 1 as run() does. Throws Error
// for what is wrong before the start.
int run_agent(const AgentOptions& options, const Talk& talk);

}  // namespace adaptdl::launch
