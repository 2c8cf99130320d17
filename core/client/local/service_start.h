#pragma once

#include <sys/types.h>

namespace adaptdl::client {

// Starts `adaptdl serve` in a process group of its own, its messages going to LocalPaths::log, and
// waits until a service answers: this one, or another that was quicker. Requires: one thread.
// Throws Error with what the service said if none comes up.
void start_service();

}  // namespace adaptdl::client
