#pragma once

// A process that kills itself at a named instant, to reach states that a signal from outside would
// hit once in a thousand tries.

#include <cstdint>
#include <string>

#include "runtime/session/step_hooks.h"

namespace adaptdl {

class Faults {
 public:
  // What ADAPTDL_FAULT says: POINT:STEP:MEMBER; MEMBER may be "any". With :stop behind it the
  // process stops itself instead. Nothing where the variable is unset.
  Faults();

  // Kills the process with SIGKILL (or stops it) when the variable names this point, step and
  // member.
  void reached(StepHooks::Point point, int64_t step, uint64_t member) const;

 private:
  std::string wanted_;
};

}  // namespace adaptdl
