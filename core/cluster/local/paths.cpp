#include "core/cluster/local/paths.h"

#include <cerrno>
#include <csignal>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"

namespace adaptdl::local {

namespace {

constexpr std::string_view kIncoming = ".incoming-";

}  // namespace

LocalPaths local_paths() {
  const auto chosen = environment_variable("ADAPTDL_LOCAL_STATE");
  const std::string folder =
      chosen ? absolute_path(*chosen) : join_path(state_directory(), "local");
  std::string other;
  try {
    if (!chosen) other = join_path(runtime_directory(), "service.sock");
  } catch (const Error&) {  // an unsafe runtime directory is not used
  }
  return {folder,
          join_path(folder, "state.db"),
          join_path(folder, "service.lock"),
          join_path(folder, "service.log"),
          join_path(folder, "jobs"),
          join_path(folder, "service.sock"),
          other};
}

std::string LocalPaths::tensorboard(const std::string& name) const {
  return join_path(join_path(folder, "tensorboard"), name);
}

std::string LocalPaths::incoming() const {
  return job(fmt::format("{}{}-{}", kIncoming, getpid(), to_hex(random_bytes(8))));
}

std::string LocalPaths::outgoing() const {
  return job(fmt::format("{}0-{}", kIncoming, to_hex(random_bytes(8))));
}

bool is_incoming(const std::string& name) {
  return name.starts_with(kIncoming);
}

bool submission_lives(const std::string& name) {
  if (!is_incoming(name)) return false;
  const size_t begin = kIncoming.size(), end = name.find('-', begin);
  const auto pid = try_parse<pid_t>(std::string_view(name).substr(begin, end - begin));
  // If another process has the number by now, the folder is kept a little longer, without harm.
  return pid && *pid > 0 && (::kill(*pid, 0) == 0 || errno == EPERM);
}

}  // namespace adaptdl::local
