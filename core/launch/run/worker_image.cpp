#include "core/launch/run/worker_image.h"

namespace adaptdl::launch {

// A build with Torch links an object that defines this function with the worker's bytes.
__attribute__((weak)) std::string_view worker_image() {
  return {};
}

}  // namespace adaptdl::launch
