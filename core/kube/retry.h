#pragma once

// When to retry a request. Pure, except jitter_seed().

#include <cstdint>
#include <optional>

#include "core/base/clock.h"
#include "core/kube/status.h"

namespace adaptdl::kube {

// The result of a request.
struct Outcome {
  bool answered = false;  // the answer is `status`; false: the connection failed
  bool arrived = true;    // if not answered: the server may have received it
  Status status;
};

// How long to wait before the retry; nothing: do not retry. After a 429, and after connections that
// failed before anything was sent, every request is retried. After 500, 502, 503, 504 and lost
// connections only a `repeatable` (idempotent) one. `attempt` counts from 1; `elapsed` and `budget`
// cover all attempts; `jitter` is in [0, 1). Honours the server's Retry-After, or gives up if that
// exceeds the rest of the budget.
std::optional<Seconds> retry_delay(const Outcome& outcome, bool repeatable, int attempt,
                                   Seconds elapsed, Seconds budget, double jitter);

// The pause before the n-th (from 1) reconnect in a row: 0.8 s, doubling up to 30 s, each extended
// by up to half by `jitter`.
Seconds reconnect_delay(int attempt, double jitter);

// A seed for `jitter`, different for each process and call.
uint64_t jitter_seed();

}  // namespace adaptdl::kube
