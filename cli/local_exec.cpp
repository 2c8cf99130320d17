#include "cli/local_exec.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "cli/local_jobs.h"
#include "cli/output.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMaxJobFile = 4u << 20;

using Variables = std::vector<std::pair<std::string, std::optional<std::string>>>;

Variables variables(const Json& job, const std::string& folder, const std::string& where) {
  Variables result;
  const Json environment = json_get_or<Json>(job, "environment", where, Json::object());
  for (const auto& [name, value] : environment.items()) {
    if (value.is_string()) result.emplace_back(name, value.get<std::string>());
  }
  result.emplace_back("ADAPTDL_JOB_ID",
                      json_get_or<std::string>(job, "namespace", where, "default") + "/" +
                          json_get<std::string>(job, "name", where));
  result.emplace_back("ADAPTDL_CHECKPOINT_PATH", join_path(folder, "checkpoints"));
  result.emplace_back("ADAPTDL_SHARE_PATH", join_path(folder, "share"));
  result.emplace_back("ADAPTDL_TENSORBOARD_LOGDIR",
                      json_find<std::string>(job, "tensorboard", where));
  return result;
}

}  // namespace

int exec_beside_local_job(const std::string& name, const std::vector<std::string>& words) {
  const local::JobRecord job = find_job(local::open_store().get(), name);
  const std::string folder = local::local_paths().job(job.name);
  const std::string path = join_path(folder, "job.json");
  const Json file = parse_json(read_file(path, kMaxJobFile), path);
  const auto directory = json_get<std::string>(file, "directory", path);
  for (const auto& [variable, value] : variables(file, folder, path)) {
    if (value) {
      setenv(variable.c_str(), value->c_str(), 1);
    } else {
      unsetenv(variable.c_str());
    }
  }
  if (chdir(directory.c_str()) != 0) fail_errno(errno, directory);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  signal(SIGPIPE, SIG_DFL);
  execvp(argv[0], argv.data());
  const int error = errno;
  talk(fmt::format("adaptdl: {}: {}", words[0],
                   std::error_code(error, std::generic_category()).message()));
  return error == ENOENT ? kCommandNotFound : kCommandNotExecutable;
}

}  // namespace adaptdl::cli
