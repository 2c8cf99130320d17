#include "core/base/version.h"

#include "core/base/commit.h"

namespace adaptdl {

std::string version() {
  return ADAPTDL_VERSION;
}

std::string commit() {
  return ADAPTDL_COMMIT;
}

std::string version_line() {
  return "adaptdl " + version() + " (" + commit() + ")";
}

}  // namespace adaptdl
