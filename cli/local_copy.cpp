#include "cli/local_copy.h"

#include "cli/local_jobs.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

// "JOB:/" alone: each of its folders, but not what is ours in it.
CopyResult copy_all(const std::string& folder, const std::string& to) {
  CopyResult all;
  make_directories(to);
  for (const std::string& name : kJobFolders) {
    const std::string from = join_path(folder, name);
    if (!path_exists(from)) continue;
    CopyResult part = copy_below(from, folder, to, "");
    all.files += part.files;
    all.bytes += part.bytes;
    all.skipped.insert(all.skipped.end(), part.skipped.begin(), part.skipped.end());
  }
  return all;
}

std::string folder_of(const std::string& job) {
  find_job(local::open_store().get(), job);
  return local::local_paths().job(job);
}

}  // namespace

CopyResult copy_from_local_job(const std::string& job, const std::string& path,
                               const std::string& to) {
  const std::string folder = folder_of(job);
  const std::string source = path_in_job(folder, path);
  return source == folder ? copy_all(folder, to) : copy_below(source, folder, to, "");
}

CopyResult copy_to_local_job(const std::string& from, const std::string& job,
                             const std::string& path) {
  const std::string folder = folder_of(job);
  const std::string target = path_in_job(folder, path);
  if (target == folder) {
    fail("{}:{}: name one of its folders: {}", job, path, fmt::join(kJobFolders, ", "));
  }
  // Links may lead anywhere in the folder that is copied.
  const std::string root = is_directory(from) ? from : parent_directory(from);
  return copy_below(from, root, target, folder);
}

}  // namespace adaptdl::cli
