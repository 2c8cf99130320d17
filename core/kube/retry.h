#pragma once

// When a request is repeated. Pure, but for jitter_seed().

#include <cstdint>
#include <optional>

#include "core/base/clock.h"
#include "core/kube/status.h"

namespace adaptdl::kube {

// What became of a request.
struct Outcome {
  bool answered = false;  // by `status`; else the connection failed
  bool arrived = true;    // unless answered: the server may have got it
  Status status;
};

// How long to wait before the request is sent again; nothing: not again. Refusals to serve (429),
// and connections that failed before anything was sent, are repeated for all; 500, 502, 503, 504
// and lost connections only if `repeatable`: doing it twice is as doing it once. `attempt` counts
// from 1, `elapsed` and `budget` are of the whole; `jitter` is in [0, 1). Waits what the server
// asks for, or gives up if that is longer than what is left.
std::optional<Seconds> retry_delay(const Outcome& outcome, bool repeatable, int attempt,
                                   Seconds elapsed, Seconds budget, double jitter);

// The pause before the n-th (from 1) attempt in a row to connect again: 0.8 s, doubling up to 30 s,
// each up to half longer by `jitter`.
Seconds reconnect_delay(int attempt, double jitter);

// For the random numbers that `jitter` comes from: another one for each process and call.
uint64_t jitter_seed();

}  // namespace adaptdl::kube
