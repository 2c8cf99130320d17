#pragma once

// Kills the process at a given point, to reach states that an external signal would rarely hit.

#include <cstdint>
#include <string>

#include "runtime/session/step_hooks.h"

namespace adaptdl {

class Faults {
 public:
  // Reads ADAPTDL_FAULT: POINT:STEP:MEMBER; MEMBER may be "any". With the suffix :stop the process
  // stops itself (SIGSTOP) instead, with :throw it throws an Error. Does nothing if the variable is
  // unset.
  Faults();

  // Kills the process with SIGKILL (or stops it) if the variable names this point, step and member.
  void reached(StepHooks::Point point, int64_t step, uint64_t member) const;

 private:
  std::string wanted_;
};

}  // namespace adaptdl
