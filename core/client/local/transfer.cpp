#include "core/client/local/transfer.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fmt/ranges.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/local/find_job.h"
#include "core/cluster/local/runner/granted_job.h"

namespace adaptdl::client {
namespace {

class LocalTransfer : public JobTransfer {
 public:
  CopyResult copy_from(const std::string& job, const std::string& path,
                       const std::string& to) override;
  CopyResult copy_to(const std::string& from, const std::string& job,
                     const std::string& path) override;
  int exec(const ExecRequest& request) override;
};

// "JOB:/" alone: copies each of its folders, but not the service's files.
CopyResult copy_all(const std::string& folder, const std::string& to) {
  CopyResult all;
  make_directories(to);
  for (const char* name : local::kCopiedFolders) {
    const std::string from = join_path(folder, name);
    if (!path_exists(from)) continue;
    CopyResult part = copy_below(from, folder, to, "");
    all.files += part.files;
    all.bytes += part.bytes;
    all.skipped.insert(all.skipped.end(), part.skipped.begin(), part.skipped.end());
    all.changed.insert(all.changed.end(), part.changed.begin(), part.changed.end());
  }
  return all;
}

std::string folder_of(const std::string& job) {
  find_job(local::open_store().get(), job);
  return local::local_paths().job(job);
}

CopyResult LocalTransfer::copy_from(const std::string& job, const std::string& path,
                                    const std::string& to) {
  const std::string folder = folder_of(job);
  const std::string source = path_in_job(folder, path);
  if (source == folder) return copy_all(folder, to);
  // Named as the caller named it, as on Kubernetes: /adaptdl/checkpoint becomes checkpoint.
  return copy_below(source, folder, to, "", file_name(absolute_path(join_path("/", path))));
}

CopyResult LocalTransfer::copy_to(const std::string& from, const std::string& job,
                                  const std::string& path) {
  const std::string folder = folder_of(job);
  const std::string target = path_in_job(folder, path);
  if (target == folder) {
    fail("{}:{}: name one of its folders: {}", job, path, fmt::join(local::kCopiedFolders, ", "));
  }
  // Symlinks may point to anything in the copied folder.
  const std::string root = is_directory(from) ? from : parent_directory(from);
  return copy_below(from, root, target, folder);
}

using Variables = std::vector<std::pair<std::string, std::optional<std::string>>>;

Variables variables(const local::GrantedJob& job, const local::JobFolder& folder) {
  Variables result(job.spec.environment.begin(), job.spec.environment.end());
  result.emplace_back("ADAPTDL_JOB_ID", job.grant.job_namespace + "/" + job.grant.name);
  result.emplace_back("ADAPTDL_CHECKPOINT_PATH", folder.checkpoints());
  result.emplace_back("ADAPTDL_SHARE_PATH", folder.share());
  const std::string& charts = job.grant.tensorboard;
  result.emplace_back("ADAPTDL_TENSORBOARD_LOGDIR",
                      charts.empty() ? std::nullopt : std::optional(charts));
  return result;
}

// Replaces this process by the command, in the folder and with the variables of the job's replicas.
int LocalTransfer::exec(const ExecRequest& request) {
  if (request.replica) {
    throw UsageError("--replica is for Kubernetes: replicas on this machine share a folder.");
  }
  const std::vector<std::string>& words = request.words;
  const local::JobRecord record = find_job(local::open_store().get(), request.job);
  const local::JobFolder folder{local::local_paths().job(record.name)};
  const local::GrantedJob job = local::read_granted_job(folder);
  const std::string& directory = job.grant.directory;
  for (const auto& [variable, value] : variables(job, folder)) {
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

}  // namespace

std::unique_ptr<JobTransfer> local_transfer() {
  return std::make_unique<LocalTransfer>();
}

}  // namespace adaptdl::client
