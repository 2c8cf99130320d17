#include "core/client/job_copy.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file_copy.h"
#include "core/base/files.h"
#include "core/cluster/local/runner/job_folder.h"
#include "core/oci/tar.h"

namespace adaptdl::client {
namespace {

// Where the pods of a job on Kubernetes have the folders that ADAPTDL_CHECKPOINT_PATH and
// ADAPTDL_SHARE_PATH name, and their names in the folder of a job of this machine.
struct Mount {
  std::string_view in_pods, in_folder;
};
constexpr std::array<Mount, 2> kMounts{
    {{"/adaptdl/checkpoint", "/checkpoints"}, {"/adaptdl/share", "/share"}}};

bool is_below(const std::string& path, const std::string& root) {
  return path == root || (path.starts_with(root) && (root == "/" || path[root.size()] == '/'));
}

class Copier {
 public:
  explicit Copier(std::string root) : root_(std::move(root)) {}

  // `depth`: number of copied folders around it.
  void copy(const std::string& from, const std::string& to, size_t depth) {
    struct stat status {};
    if (lstat(from.c_str(), &status) != 0) return gone_or_fail(errno, from, depth);
    if (S_ISDIR(status.st_mode)) {
      copy_folder(from, to, status, depth);
    } else if (S_ISLNK(status.st_mode)) {
      copy_link(from, to, depth);
    } else if (S_ISREG(status.st_mode)) {
      copy_file(from, to, depth);
    } else {
      result_.skipped.push_back(from + ": not a regular file");
    }
  }

  CopyResult result_;

 private:
  // The program may remove its files while they are copied.
  void gone_or_fail(int error_number, const std::string& from, size_t depth) {
    if (depth == 0 || !oci::is_gone(error_number)) fail_errno(error_number, from);
    result_.skipped.push_back(from + ": was removed while the others were copied");
  }

  void copy_folder(const std::string& from, const std::string& to, const struct stat& status,
                   size_t depth) {
    struct stat there {};
    if (lstat(to.c_str(), &there) == 0 && S_ISLNK(there.st_mode)) {
      fail("{}: is a symlink; files are not written through symlinks", to);
    }
    std::vector<std::string> names;
    try {
      names = list_directory(from);
    } catch (const Error&) {
      if (lstat(from.c_str(), &there) == 0) throw;
      return gone_or_fail(errno, from, depth);
    }
    if (mkdir(to.c_str(), 0700) != 0 && errno != EEXIST) fail_errno(errno, to);
    for (const std::string& name : names) {
      copy(join_path(from, name), join_path(to, name), depth + 1);
    }
    keep(to, status);
  }

  void copy_link(const std::string& from, const std::string& to, size_t depth) {
    char resolved[PATH_MAX], target[PATH_MAX];
    const ssize_t size = readlink(from.c_str(), target, sizeof target - 1);
    if (size < 0) return gone_or_fail(errno, from, depth);
    target[size] = 0;
    if (target[0] == '/' || ::realpath(from.c_str(), resolved) == nullptr ||
        !is_below(resolved, root_)) {
      result_.skipped.push_back(
          fmt::format("{}: leads to {}, outside of what is copied", from, target));
      return;
    }
    if (unlink(to.c_str()) != 0 && errno != ENOENT) fail_errno(errno, to);
    if (symlink(target, to.c_str()) != 0) fail_errno(errno, to);
    ++result_.files;
  }

  // Written beside its destination first, so that a reader never sees a partial file.
  void copy_file(const std::string& from, const std::string& to, size_t depth) {
    const std::string beside = to + fmt::format(".copying-{}", getpid());
    if (unlink(beside.c_str()) != 0 && errno != ENOENT) fail_errno(errno, beside);
    try {
      const CopiedFile copied = adaptdl::copy_file(from, beside);
      if (!copied.found) return gone_or_fail(ENOENT, from, depth);
      if (rename(beside.c_str(), to.c_str()) != 0) fail_errno(errno, to);
      if (copied.changed) {
        result_.changed.push_back(
            from + ": changed while it was copied: the copy may mix its old and its new content");
      }
      result_.bytes += copied.bytes;
    } catch (const Error&) {
      unlink(beside.c_str());
      throw;
    }
    ++result_.files;
  }

  static void keep(const std::string& path, const struct stat& status) {
    const timespec times[2] = {status.st_atim, status.st_mtim};
    if (chmod(path.c_str(), status.st_mode & 07777) != 0) fail_errno(errno, path);
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  }

  std::string root_;
};

}  // namespace

std::string path_in_job(const std::string& folder, const std::string& path) {
  std::string absolute = absolute_path(join_path("/", path));
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (path.compare(start, end - start, "..") == 0) {
      throw UsageError(fmt::format("{}: a path in a job must stay in the job's folder.", path));
    }
    start = end + 1;
  }
  if (absolute == "/") return folder;
  for (const Mount& mount : kMounts) {
    if (!is_below(absolute, std::string(mount.in_pods))) continue;
    absolute.replace(0, mount.in_pods.size(), mount.in_folder);
    break;
  }
  const std::string first = absolute.substr(1, absolute.find('/', 1) - 1);
  if (std::find(local::kCopiedFolders.begin(), local::kCopiedFolders.end(), first) ==
      local::kCopiedFolders.end()) {
    fail("{}: not in a folder of the job: {}, {}, {}", path, fmt::join(local::kCopiedFolders, ", "),
         kMounts[0].in_pods, kMounts[1].in_pods);
  }
  return folder + absolute;
}

CopyResult copy_below(const std::string& from, const std::string& root, const std::string& to,
                      const std::string& target_root, const std::string& name) {
  const std::string real_root = real_path(root);
  const std::string source = real_path(from);
  if (!is_below(source, real_root)) fail("{}: is outside of {}", from, root);
  std::string target = to;
  if (is_directory(to))
    target = join_path(to, name.empty() ? file_name(absolute_path(from)) : name);
  const std::string parent = real_path(parent_directory(target));
  if (!target_root.empty() && !is_below(parent, real_path(target_root))) {
    fail("{}: is outside of {}", to, target_root);
  }
  target = join_path(parent, file_name(target));
  if (is_below(target, source)) fail("{}: the destination is the source, or inside it", to);
  Copier copier(real_root);
  copier.copy(source, target, 0);
  return std::move(copier.result_);
}

}  // namespace adaptdl::client
