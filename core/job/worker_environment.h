#pragma once

// Environment variables that all our schedulers set for a training program.

namespace adaptdl {

// ADAPTDL_SCHED_VERSION. AdaptDL's clients exit at any other major version than this.
inline constexpr const char* kSchedulerVersion = "0.2.11";

}  // namespace adaptdl
