#pragma once

// The TensorBoard instances of the local cluster: folders STATE/local/tensorboard/NAME, and the
// program that shows them.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/process.h"

namespace adaptdl::client {

std::string tensorboard_folder(const std::string& name);
std::vector<std::string> tensorboard_names();  // that there are, sorted

// The command that starts TensorBoard here: of the active virtual environment, of PATH, or as a
// module of python3. Throws Error that says how to get it.
std::vector<std::string> tensorboard_command();

// Whether some process holds a TensorBoardLock for the instance.
bool tensorboard_is_shown(const std::string& name);

// Marks an instance as shown, as long as it lives; several may.
class TensorBoardLock {
 public:
  // Throws Error if there is no such instance.
  explicit TensorBoardLock(const std::string& name);

 private:
  Fd folder_;
};

}  // namespace adaptdl::client
