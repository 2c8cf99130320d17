#include "cli/version.h"

#include "cli/commit.h"

namespace adaptdl::cli {

std::string version() {
  return ADAPTDL_VERSION;
}

std::string commit() {
  return ADAPTDL_COMMIT;
}

std::string version_line() {
  return "adaptdl " + version() + " (" + commit() + ")";
}

}  // namespace adaptdl::cli
