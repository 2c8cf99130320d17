#include "core/job/project_files.h"

#include <algorithm>
#include <cerrno>
#include <map>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxIgnoreFile = 1u << 20;
// Before the user's rules, which can override them.
constexpr const char* kOwnRules = ".git\n*.run/\n";

// What is left of `path` behind `folder`; "." if they are the same, "" if it is elsewhere.
std::string below(const std::string& path, const std::string& folder) {
  if (path == folder) return ".";
  const std::string start = folder == "/" ? folder : folder + "/";
  return path.starts_with(start) ? path.substr(start.size()) : "";
}

IgnoreRules read_rules(const std::string& folder) {
  const std::string file = join_path(folder, kIgnoreFileName);
  return IgnoreRules(kOwnRules + (path_exists(file) ? read_file(file, kMaxIgnoreFile) : ""));
}

}  // namespace

ProjectFiles::ProjectFiles(const std::string& folder, const std::vector<std::string>& data)
    : given_(absolute_path(folder)), folder_(real_path(folder)), rules_(read_rules(folder_)) {
  if (!is_directory(folder_)) fail("{}: is not a folder; give the project's folder", folder);
  // Outer folders first, because they contain the inner ones.
  std::vector<std::string> sorted;
  for (const std::string& path : data) sorted.push_back(absolute_path(path, given_));
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& path : sorted) add_data(path);
}

void ProjectFiles::add_data(const std::string& path) {
  if (!path_exists(path)) {
    fail(
        "data: {} does not exist; give a path that is absolute or relative to the project's "
        "folder {}",
        path, given_);
  }
  std::string place = inside(path);
  if (place == ".") {
    fail(
        "data: {} is the project itself; name its largest subfolders, or list them in "
        ".adaptdlignore",
        path);
  }
  const bool outside = place.empty();
  if (outside) {
    place = file_name(path);
    struct stat status {};
    const bool taken = ::lstat(join_path(folder_, place).c_str(), &status) == 0 &&
                       !left_out(place, S_ISDIR(status.st_mode));
    if (taken) {
      fail("data: {} would be linked as {}, which the project already has; rename one of the two",
           path, place);
    }
  }
  for (const DataLink& other : data_) {
    if (other.target == path) return;
    const bool within = !below(place, other.place).empty() && other.place != place;
    if (within && !below(path, other.target).empty()) return;
    if (within || other.place == place) {
      fail("data: {} and {} would both be linked at {}; rename one of the two", other.target, path,
           other.place);
    }
  }
  data_.push_back({place, path});
}

std::string ProjectFiles::inside(const std::string& path) const {
  const std::string real = below(path, folder_);
  return real.empty() ? below(path, given_) : real;
}

bool ProjectFiles::left_out(const std::string& path, bool is_directory) const {
  const bool is_data = std::any_of(data_.begin(), data_.end(), [&](const DataLink& link) {
    return !below(path, link.place).empty();
  });
  return is_data || rules_.ignored(path, is_directory);
}

void ProjectFiles::walk(const std::function<void(const ProjectEntry&)>& visit) const {
  walk_folder("", visit);
}

void ProjectFiles::walk_folder(const std::string& folder,
                               const std::function<void(const ProjectEntry&)>& visit) const {
  std::vector<std::string> names;
  try {
    names = list_directory(folder.empty() ? folder_ : join_path(folder_, folder));
  } catch (const Error& error) {
    fail("{}; to submit the project without it, list it in {}", error.what(), kIgnoreFileName);
  }
  for (const std::string& name : names) {
    ProjectEntry entry{folder.empty() ? name : folder + "/" + name, {}};
    const std::string path = join_path(folder_, entry.path);
    if (::lstat(path.c_str(), &entry.status) != 0) {
      if (errno == ENOENT) continue;  // removed meanwhile
      fail_errno(errno, path + ": cannot read");
    }
    const bool is_folder = S_ISDIR(entry.status.st_mode);
    // The folders above are not left out, or the walk would not have come here.
    const bool is_data = std::any_of(
        data_.begin(), data_.end(), [&](const DataLink& link) { return link.place == entry.path; });
    if (is_data || rules_.verdict(entry.path, is_folder) == IgnoreRules::Verdict::ignored) continue;
    visit(entry);
    if (is_folder) walk_folder(entry.path, visit);
  }
}

ProjectSize measure_project(const ProjectFiles& files) {
  ProjectSize size;
  std::map<std::string, uint64_t> tops;
  files.walk([&](const ProjectEntry& entry) {
    if (!S_ISREG(entry.status.st_mode)) return;
    const auto bytes = static_cast<uint64_t>(entry.status.st_size);
    ++size.files;
    size.bytes += bytes;
    const size_t slash = entry.path.find('/');
    tops[slash == std::string::npos ? entry.path : entry.path.substr(0, slash + 1)] += bytes;
  });
  size.largest.assign(tops.begin(), tops.end());
  std::stable_sort(size.largest.begin(), size.largest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return size;
}

}  // namespace adaptdl
