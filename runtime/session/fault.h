#pragma once

// Places where a test can make this process kill itself, to reach states that a signal from outside
// would hit once in a thousand tries. Off unless ADAPTDL_FAULT=POINT:STEP:MEMBER is set;
// MEMBER may be "any". With :stop behind it the process stops itself instead.

#include <cstdint>

namespace adaptdl {

enum class FaultPoint { reduced, prepared, committed, applied, announced, syncing };

// Kills the process with SIGKILL (or stops it) when the variable names this point, step and member.
void fault_point(FaultPoint point, int64_t step, uint64_t member);

}  // namespace adaptdl
