#include "core/client/job_tar.h"

#include <cerrno>
#include <climits>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/oci/tar.h"
#include "core/oci/untar.h"

namespace adaptdl::client {
namespace {

class Packer {
 public:
  explicit Packer(const std::function<void(std::string_view)>& sink) : writer_(sink) {}

  // `to`: its path in the archive. `depth`: number of packed folders around it.
  void pack(const std::string& from, const std::string& to, size_t depth) {
    struct stat status {};
    const int failed = depth == 0 ? stat(from.c_str(), &status) : lstat(from.c_str(), &status);
    if (failed != 0 && depth > 0 && oci::is_gone(errno)) return skip_gone(from);
    if (failed != 0) fail_errno(errno, from);
    oci::TarEntry entry{to, oci::TarEntry::Kind::file, from, status.st_mode & 0777};
    if (S_ISDIR(status.st_mode)) {
      entry.kind = oci::TarEntry::Kind::folder;
      writer_.add(entry, status.st_mtim.tv_sec);
      std::vector<std::string> members;
      try {
        members = list_directory(from);
      } catch (const Error&) {
        if (depth == 0 || lstat(from.c_str(), &status) == 0 || !oci::is_gone(errno)) throw;
        return skip_gone(from);
      }
      for (const std::string& each : members) {
        pack(join_path(from, each), join_path(to, each), depth + 1);
      }
      return;
    }
    if (S_ISLNK(status.st_mode)) {
      entry.kind = oci::TarEntry::Kind::link;
      const auto target = target_of(from);
      if (!target) return skip_gone(from);
      entry.source = *target;
      if (oci::leads_out(entry.source, depth - 1)) {
        result_.skipped.push_back(
            fmt::format("{}: leads to {}, outside of what is copied", from, entry.source));
        return;
      }
    } else if (!S_ISREG(status.st_mode)) {
      result_.skipped.push_back(from + ": not a regular file");
      return;
    }
    try {
      writer_.add(entry, status.st_mtim.tv_sec);
    } catch (const oci::FileChanged& change) {
      if (change.went() && depth == 0) throw;
      if (change.went()) return skip_gone(from);
      result_.changed.push_back(from + ": was truncated while it was copied; the rest is zeros");
    }
    if (S_ISREG(status.st_mode)) result_.bytes += static_cast<uint64_t>(status.st_size);
    ++result_.files;
  }

  CopyResult finish() {
    writer_.close();
    return std::move(result_);
  }

 private:
  // Nothing: the link has disappeared.
  static std::optional<std::string> target_of(const std::string& link) {
    char target[PATH_MAX];
    const ssize_t size = readlink(link.c_str(), target, sizeof target);
    if (size < 0 && oci::is_gone(errno)) return std::nullopt;
    if (size < 0) fail_errno(errno, link);
    return std::string(target, static_cast<size_t>(size));
  }

  void skip_gone(const std::string& path) {
    result_.skipped.push_back(path + ": was removed while the others were copied");
  }

  oci::TarWriter writer_;
  CopyResult result_;
};

}  // namespace

CopyResult pack_tar(const std::string& from, const std::string& name,
                    const std::function<void(std::string_view)>& sink) {
  Packer packer(sink);
  packer.pack(from, name, 0);
  return packer.finish();
}

CopyResult pack_members(const std::string& folder, const std::vector<std::string>& members,
                        const std::function<void(std::string_view)>& sink) {
  Packer packer(sink);
  for (const std::string& member : members) packer.pack(join_path(folder, member), member, 0);
  return packer.finish();
}

}  // namespace adaptdl::client
