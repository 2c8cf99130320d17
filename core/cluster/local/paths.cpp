#include "core/cluster/local/paths.h"

#include "core/base/files.h"
#include "core/base/system.h"

namespace adaptdl::local {

LocalPaths local_paths() {
  const auto chosen = environment_variable("ADAPTDL_LOCAL_STATE");
  const std::string folder =
      chosen ? absolute_path(*chosen) : join_path(state_directory(), "local");
  const std::string runtime = chosen ? folder : runtime_directory();
  return {folder,
          join_path(folder, "state.db"),
          join_path(folder, "service.lock"),
          join_path(folder, "service.log"),
          join_path(folder, "jobs"),
          join_path(runtime, "service.sock")};
}

}  // namespace adaptdl::local
