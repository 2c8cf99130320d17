#pragma once

// The beginning and the end that all runs have in common.

#include <vector>

#include "core/launch/output.h"
#include "core/launch/signals.h"

namespace adaptdl::launch {

// What a run catches: SIGINT, SIGTERM, SIGCHLD, and SIGHUP unless it is ignored (nohup).
std::vector<int> caught_signals();

// Waits until the sinks have everything; a signal ends the wait.
void hand_out(Output& output, SignalCatcher& signals);

}  // namespace adaptdl::launch
