#include "runtime/comm/nccl/library.h"

#include <dlfcn.h>
#include <optional>

namespace adaptdl::comm::nccl {
namespace {

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

std::optional<Library> look_up() {
  // Never closed: its threads may live as long as the process.
  void* handle = RTLD_DEFAULT;
  if (dlsym(handle, "ncclGetVersion") == nullptr) {
    handle = dlopen("libnccl.so.2", RTLD_NOW);
    if (handle == nullptr) return std::nullopt;
  }
  Library found;
  int (*get_version)(int*) = nullptr;
  const bool whole = find(handle, "ncclGetVersion", get_version) &&
                     find(handle, "ncclGetUniqueId", found.get_unique_id) &&
                     find(handle, "ncclCommInitRankConfig", found.init) &&
                     find(handle, "ncclCommGetAsyncError", found.get_async_error) &&
                     find(handle, "ncclAllReduce", found.all_reduce) &&
                     find(handle, "ncclBroadcast", found.broadcast) &&
                     find(handle, "ncclCommAbort", found.abort) &&
                     find(handle, "ncclGetErrorString", found.error_text) &&
                     find(handle, "ncclGetLastError", found.last_error);
  if (!whole || get_version(&found.version) != kSuccess || found.version < kLeastVersion) {
    return std::nullopt;
  }
  return found;
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const Library* load() {
  static const std::optional<Library> found = look_up();
  return found ? &*found : nullptr;
}

}  // namespace adaptdl::comm::nccl
