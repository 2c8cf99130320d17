#pragma once

// Environment variables that our schedulers set for a training program.

namespace adaptdl {

// ADAPTDL_SCHED_VERSION. AdaptDL's clients exit at any other major version than this.
inline constexpr const char* kSchedulerVersion = "0.2.11";

// The kind of accelerators that the program trains on, as its scheduler calls it; unset where the
// scheduler knows none.
inline constexpr const char* kAcceleratorVariable = "ADAPTDL_ACCELERATOR";

}  // namespace adaptdl
