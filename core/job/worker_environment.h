#pragma once

// What every scheduler of ours tells a training program through its environment.

namespace adaptdl {

// ADAPTDL_SCHED_VERSION. AdaptDL's clients die at any other major number, whatever ours is.
inline constexpr const char* kSchedulerVersion = "0.2.11";

}  // namespace adaptdl
