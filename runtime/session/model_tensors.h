#pragma once

#include <set>
#include <string>
#include <vector>

#include "adaptdl/program.h"

namespace adaptdl {

// Beginnings of the names that tensors have in checkpoints.
inline constexpr const char* kParameterPrefix = "parameter/";
inline constexpr const char* kBufferPrefix = "buffer/";

// The program's parameters and buffers under their names in checkpoints.
std::vector<NamedTensor> model_tensors(Program& program);

// Names of the tensors that hold a number that is not finite.
std::set<std::string> not_finite(const std::vector<NamedTensor>& tensors);

}  // namespace adaptdl
