#pragma once

#include "adaptdl/program.h"

namespace adaptdl {

// Throws Error with a sentence when parameters() or buffers() are not what Program promises.
void check_tensors(Program& program);

}  // namespace adaptdl
