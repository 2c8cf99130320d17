#pragma once

#include "adaptdl/program.h"

namespace adaptdl {

// Throws Error if parameters() or buffers() break the contract of Program.
void check_tensors(Program& program);

}  // namespace adaptdl
