#pragma once

// Gives a program the weights of a file (adaptdl-train(5), `from`), the frozen ones included.

#include <string>
#include <vector>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"

namespace adaptdl {

struct LoadedWeights {
  std::string path;
  size_t tensors = 0;                // loaded
  std::vector<std::string> kept;     // of the program, as they were
  std::vector<std::string> skipped;  // of the file
  std::vector<std::string> frozen;   // of the program's frozen tensors, those that were loaded
};

// `folder`: of a relative path. Throws Error, before anything has changed, if the file is invalid
// or does not fit.
LoadedWeights load_weights(Program& program, const FromSpec& from, const std::string& folder);

}  // namespace adaptdl
