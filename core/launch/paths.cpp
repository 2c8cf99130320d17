#include "core/launch/paths.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"

namespace adaptdl::launch {

std::string records_directory() {
  return join_path(state_directory(), "runs");
}

std::string sockets_directory() {
  return join_path(runtime_directory(), "runs");
}

void check_run_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool good = !name.empty() && name.size() <= 63 && plain(name.front()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return plain(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return;
  throw UsageError(
      fmt::format("invalid run name \"{}\": use at most 63 letters, digits, . _ and -, starting "
                  "with a letter or digit",
                  name));
}

RunPaths run_paths(const std::string& name) {
  check_run_name(name);
  const std::string folder = join_path(records_directory(), name);
  return {.record = folder + ".json",
          .socket = join_path(sockets_directory(), name + ".sock"),
          .checkpoint_dir = join_path(folder, "checkpoints"),
          .log_dir = join_path(folder, "logs")};
}

}  // namespace adaptdl::launch
