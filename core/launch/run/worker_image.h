#pragma once

#include <string_view>

namespace adaptdl::launch {

// The training worker, an ELF executable linked with LibTorch, unpacked on the first call; empty in
// a build without Torch. Lives as long as the process. Throws Error when it cannot be unpacked.
std::string_view worker_image();

}  // namespace adaptdl::launch
