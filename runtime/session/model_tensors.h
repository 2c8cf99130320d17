#pragma once

#include <vector>

#include "adaptdl/program.h"

namespace adaptdl {

// Beginnings of the names that tensors have in checkpoints.
inline constexpr const char* kParameterPrefix = "parameter/";
inline constexpr const char* kBufferPrefix = "buffer/";

// The program's parameters and buffers under their names in checkpoints.
std::vector<NamedTensor> model_tensors(Program& program);

}  // namespace adaptdl
