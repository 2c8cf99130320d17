#pragma once

// The TensorBoard instances of the local cluster: folders STATE/local/tensorboard/NAME, and the
// program that serves them.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/process.h"

namespace adaptdl::client {

std::string tensorboard_folder(const std::string& name);
std::vector<std::string> tensorboard_names();  // of the existing instances, sorted

// The command that starts TensorBoard here: from the active virtual environment, from PATH, or as a
// module of python3. Throws an Error that says how to install it.
std::vector<std::string> tensorboard_command();

// Whether a process holds a TensorBoardLock for the instance.
bool tensorboard_is_shown(const std::string& name);

// Marks an instance as served while it lives; several locks are possible.
class TensorBoardLock {
 public:
  // Throws Error if the instance is not found.
  explicit TensorBoardLock(const std::string& name);

 private:
  Fd folder_;
};

}  // namespace adaptdl::client
