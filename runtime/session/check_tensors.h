#pragma once

#include "adaptdl/program.h"

namespace adaptdl {

// Throws Error if parameters(), buffers() or frozen() break the contract of Program.
void check_tensors(Program& program);

}  // namespace adaptdl
