#include "core/oci/context.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::oci {
namespace {

constexpr size_t kMaxIgnoreFile = 1u << 20;
constexpr int kMaxLinks = 40;  // on one path, as in Linux

using FileId = std::pair<dev_t, ino_t>;

struct Exclusion {
  DockerIgnore rules;
  LeftOut left_out;
  std::vector<FileId> files;
};

std::vector<FileId> existing_ids(const std::vector<std::string>& paths) {
  std::vector<FileId> ids;
  for (const std::string& path : paths) {
    struct stat status {};
    if (lstat(path.c_str(), &status) == 0) ids.emplace_back(status.st_dev, status.st_ino);
  }
  return ids;
}

void walk(BuildContext& context, const Exclusion& excluded, const std::string& below) {
  const std::string here = below.empty() ? context.folder : join_path(context.folder, below);
  for (const std::string& name : list_directory(here)) {
    const std::string path = below.empty() ? name : below + "/" + name;
    const std::string whole = join_path(context.folder, path);
    struct stat status {};
    if (lstat(whole.c_str(), &status) != 0) {
      if (errno == ENOENT) continue;  // removed meanwhile
      fail_errno(errno, whole + ": cannot read");
    }
    const bool is_folder = S_ISDIR(status.st_mode);
    if (excluded.left_out && excluded.left_out(path, is_folder)) continue;
    const FileId id(status.st_dev, status.st_ino);
    if (std::find(excluded.files.begin(), excluded.files.end(), id) != excluded.files.end()) {
      continue;
    }
    const bool ignored = excluded.rules.ignored(path);
    if (ignored && (!is_folder || excluded.rules.final_for_folders())) continue;
    ContextFile file{path, ContextFile::Kind::file, "", status.st_mode & 0777};
    if (is_folder) {
      file.kind = ContextFile::Kind::folder;
    } else if (S_ISLNK(status.st_mode)) {
      file.kind = ContextFile::Kind::link;
      std::array<char, PATH_MAX> target;
      const ssize_t size = readlink(whole.c_str(), target.data(), target.size());
      if (size < 0) fail_errno(errno, whole + ": cannot read");
      file.target.assign(target.data(), static_cast<size_t>(size));
    } else if (!S_ISREG(status.st_mode)) {
      context.warnings.push_back(whole + ": left out: not a file, folder or symlink");
      continue;
    }
    const size_t place = context.files.size();
    if (!ignored) context.files.push_back(file);
    if (!is_folder) continue;
    walk(context, excluded, path);
    // Keep an ignored folder if paths below it were re-included.
    if (ignored && context.files.size() > place) {
      context.files.insert(context.files.begin() + static_cast<ptrdiff_t>(place), file);
    }
  }
}

}  // namespace

DockerIgnore::DockerIgnore(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('#')) continue;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    const bool negated = line.starts_with('!');
    if (negated) line.erase(0, 1);
    while (line.starts_with("./")) line.erase(0, 2);
    while (line.starts_with('/')) line.erase(0, 1);
    while (line.ends_with('/')) line.pop_back();
    if (line.empty() || line == ".") continue;
    rules_.push_back({negated, IgnoreRules("/" + line)});
    negates_ = negates_ || negated;
  }
}

bool DockerIgnore::ignored(std::string_view path) const {
  bool result = false;
  for (const Rule& rule : rules_) {
    if (rule.pattern.ignored(path, false) || rule.pattern.ignored(path, true)) {
      result = !rule.negated;
    }
  }
  return result;
}

BuildContext read_context(const std::string& folder, const LeftOut& left_out,
                          const std::string& dockerfile, const std::vector<std::string>& without) {
  BuildContext context{folder, {}, {}};
  std::string file = dockerfile + ".dockerignore";  // of BuildKit, in place of the other
  if (dockerfile.empty() || !path_exists(file)) file = join_path(folder, ".dockerignore");
  walk(context,
       {DockerIgnore(path_exists(file) ? read_file(file, kMaxIgnoreFile) : ""), left_out,
        existing_ids(without)},
       "");
  return context;
}

std::string follow_links(const BuildContext& context, const std::string& path) {
  std::string done, rest = path;
  for (int links = 0; !rest.empty();) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string next = (done.empty() ? "" : done + "/") + rest.substr(0, end);
    rest.erase(0, end + 1);
    const auto link =
        std::find_if(context.files.begin(), context.files.end(), [&](const ContextFile& file) {
          return file.kind == ContextFile::Kind::link && file.path == next;
        });
    if (link == context.files.end()) {
      done = next;
      continue;
    }
    if (++links > kMaxLinks) fail("{}: its symlinks form a loop", path);
    rest = absolute_path(link->target + "/" + rest, "/" + done).substr(1);
    done.clear();
  }
  return done;
}

}  // namespace adaptdl::oci
