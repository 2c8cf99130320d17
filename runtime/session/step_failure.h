#pragma once

// An exception on one replica, in a step or after it.

#include <cstdint>
#include <exception>
#include <string>

#include "core/base/error.h"

namespace adaptdl {

// Ends this replica. The launcher treats it as a death, so that the others continue, until another
// replica fails in the same step.
struct StepFailure : Error {
  StepFailure(const std::string& what, int64_t step, ExitCode code)
      : Error(what, code), step(step) {}
  int64_t step;  // that failed
};

// Whether memory ran out, of the host or a device. LibTorch has no type of its own for the host's,
// and TorchScript keeps only the text.
bool out_of_memory(const std::exception& error);

// What the exception says, without LibTorch's backtrace.
std::string reason_of(const std::exception& error);

}  // namespace adaptdl
