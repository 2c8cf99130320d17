#pragma once

#include <sys/types.h>

namespace adaptdl::client {

// Starts `adaptdl serve` in a process group of its own, with its messages in LocalPaths::log, and
// waits until a service answers: this one, or another that started first. Requires: one thread.
// Throws Error with the service's messages if none answers.
void start_service();

}  // namespace adaptdl::client
