#pragma once

#include <set>
#include <string>
#include <vector>

#include "adaptdl/program.h"

namespace adaptdl {

// Beginnings of the names that tensors have in checkpoints.
inline constexpr const char* kParameterPrefix = "parameter/";
inline constexpr const char* kBufferPrefix = "buffer/";
inline constexpr const char* kFrozenPrefix = "frozen/";

// The program's parameters and buffers under their names in checkpoints.
std::vector<NamedTensor> model_tensors(Program& program);

// Of the program's frozen tensors those with these names, also under their names in checkpoints.
// Throws Error if one is missing.
std::vector<NamedTensor> frozen_tensors(Program& program, const std::vector<std::string>& names);

// Names of the tensors that hold a number that is not finite.
std::set<std::string> not_finite(const std::vector<NamedTensor>& tensors);

}  // namespace adaptdl
