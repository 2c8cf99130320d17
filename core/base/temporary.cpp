#include "core/base/temporary.h"

#include <filesystem>
#include <mutex>
#include <set>

namespace adaptdl {
namespace {

std::mutex mutex;

std::set<std::string>& paths() {
  static std::set<std::string> all;
  return all;
}

}  // namespace

void note_temporary_path(const std::string& path) {
  const std::lock_guard lock(mutex);
  paths().insert(path);
}

void forget_temporary_path(const std::string& path) noexcept {
  const std::lock_guard lock(mutex);
  paths().erase(path);
}

void sweep_temporary_paths() noexcept {
  const std::lock_guard lock(mutex);
  for (const std::string& path : paths()) {
    std::error_code error;  // ignored: nothing useful to do here
    std::filesystem::remove_all(path, error);
  }
  paths().clear();
}

}  // namespace adaptdl
