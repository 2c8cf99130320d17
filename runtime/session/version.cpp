#include "adaptdl/version.h"

namespace adaptdl {

bool ADAPTDL_LIBRARY_FOR(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR)() {
  return true;
}

}  // namespace adaptdl
