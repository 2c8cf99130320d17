#pragma once

// Kills the process at a given point, to reach states that an external signal would rarely hit, or
// changes a bit of its parameters.

#include <cstdint>
#include <string>

#include "adaptdl/program.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

class Faults {
 public:
  // Reads ADAPTDL_FAULT: POINT:STEP:MEMBER; MEMBER may be "any". With the suffix :stop the process
  // stops itself (SIGSTOP) instead, with :slow it sleeps for 10 s, with :throw it throws an Error,
  // with :no_memory std::bad_alloc, with :flip it changes one bit of its first parameter. Does
  // nothing if the variable is unset.
  Faults();

  void program(Program& program) { program_ = &program; }

  // Does what the variable says if it names this point, step and member.
  void reached(StepHooks::Point point, int64_t step, uint64_t member) const;

 private:
  std::string wanted_;
  Program* program_ = nullptr;
};

}  // namespace adaptdl
