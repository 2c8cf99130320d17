#include "core/job/project_copy.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <limits.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file_copy.h"
#include "core/base/file_pattern.h"
#include "core/base/files.h"
#include "core/job/training_archive.h"
#include "core/job/training_spec.h"

namespace adaptdl {
namespace {

std::string read_link(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) fail_errno(errno, path + ": cannot read the symlink");
  target.resize(static_cast<size_t>(size));
  return target;
}

void make_link(const std::string& target, const std::string& path) {
  if (::symlink(target.c_str(), path.c_str()) != 0) fail_to_write(errno, path);
}

// The new folder. The destructor removes it with its contents unless finish() was called.
class Destination {
 public:
  Destination(const std::string& path, const CopyOptions& options)
      : path_(absolute_path(path)), options_(options) {
    if (::mkdir(path_.c_str(), 0700) != 0) {
      if (errno == EEXIST) fail("{}: already exists; copy into a new folder", path_);
      fail_to_write(errno, path_);
    }
  }
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;
  ~Destination() {
    if (finished_) return;
    try {
      remove_tree(path_);
    } catch (const Error&) {
      // The error that ended the copy matters more.
    }
  }

  std::string at(const std::string& place) const { return path_ + "/" + place; }

  void copy(const std::string& from, const std::string& place) {
    const uint64_t before = copied_.bytes;
    const CopiedFile file = copy_file(from, at(place), [&](uint64_t bytes) {
      copied_.bytes += bytes;
      report();
    });
    if (!file.found) return;  // removed meanwhile
    // The reports above do not count holes correctly, nor bytes that were copied again.
    copied_.bytes = before + file.bytes;
    ++copied_.files;
    report();
    if (file.changed) {
      warn("{} changed while it was copied: the copy may mix its old and its new content", from);
    }
  }

  // Makes a symlink to data that is not copied. If a folder on the way is itself a symlink, it
  // leads to the original project, in which nothing may be created.
  void link_data(const std::string& place, const std::string& target) {
    for (size_t slash = place.find('/'); slash != std::string::npos;
         slash = place.find('/', slash + 1)) {
      const std::string folder = at(place.substr(0, slash));
      struct stat status {};
      if (::lstat(folder.c_str(), &status) != 0) {
        if (::mkdir(folder.c_str(), 0700) != 0) fail_to_write(errno, folder);
      } else if (!S_ISDIR(status.st_mode)) {
        if (path_exists(at(place))) return;
        fail("data: cannot link {}: {} is not a folder", target, folder);
      }
    }
    make_link(target, at(place));
  }

  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    copied_.warnings.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  ProjectCopy& copied() { return copied_; }

  ProjectCopy finish() {
    if (options_.durable) {
      const Fd folder = open_file(path_, O_RDONLY | O_DIRECTORY);
      if (::syncfs(folder.get()) != 0) fail_to_write(errno, path_);
    }
    finished_ = true;
    return std::move(copied_);
  }

 private:
  void report() const {
    if (options_.progress) options_.progress(copied_.files, copied_.bytes);
  }

  std::string path_;
  const CopyOptions& options_;
  ProjectCopy copied_;
  bool finished_ = false;
};

// Whether the target of a symlink at `place` leads through a folder above the project. In the copy
// it would lead to the original, or nowhere.
bool climbs_out(const std::string& place, const std::string& target) {
  if (target.starts_with('/')) return true;
  int depth = 0;
  for (const auto& name : std::filesystem::path(place).parent_path() / target) {
    if (name == "." || name.empty()) continue;
    depth += name == ".." ? -1 : 1;
    if (depth < 0) return true;
  }
  return false;
}

// The target in the copy of a symlink of the project.
std::string copied_link(const ProjectFiles& files, const std::string& place, ProjectCopy& copied) {
  const std::string path = join_path(files.folder(), place);
  const std::string target = read_link(path);
  const std::string whole = absolute_path(target, parent_directory(path));
  const std::string inside = files.inside(whole);
  // The target is in the copy, or linked there.
  const auto is_data = [&](const ProjectFiles::DataLink& link) { return link.place == inside; };
  const bool there =
      !inside.empty() && (!files.left_out(inside, is_directory(whole)) ||
                          std::any_of(files.data().begin(), files.data().end(), is_data));
  if (!there) {
    copied.outside_links.push_back(place);
    return whole;
  }
  if (!climbs_out(place, target)) return target;
  const std::string from = parent_directory(path);
  return std::filesystem::path(join_path(files.folder(), inside)).lexically_relative(from).string();
}

struct ArchiveData {
  std::map<std::string, std::string> links;  // place -> original
  std::vector<std::string> settings;         // for data without a place
};

// The data that an archive names by relative paths. As in the runtime, they are relative to the
// archive's folder.
ArchiveData find_archive_data(const std::string& name, const std::string& program,
                              const std::vector<std::string>& settings) {
  const TrainingSpec spec = parse_training_spec(
      read_settings(program), fmt::format("{}: {}", name, kSettingsFile), settings);
  ArchiveData data;
  const std::string folder = parent_directory(program);
  const auto find_files = [&](const std::string& what, const std::string& path, bool pattern,
                              const std::string& setting) {
    const std::string whole = user_path(path, folder), start = join_path(folder, "");
    const auto names = std::filesystem::path(path);
    const bool climbs = std::find(names.begin(), names.end(), "..") != names.end();
    // What is not below the folder cannot be linked at its place in the copy.
    const bool below = !climbs && whole.size() > start.size();
    const std::string inner = below ? whole.substr(start.size()) : whole;
    for (const std::string& original :
         pattern ? expand_pattern(inner, folder) : std::vector{whole}) {
      if (!path_exists(original)) fail("{}: {} does not exist", what, original);
      const std::string place = below ? original.substr(start.size()) : "";
      if (!below || place == file_name(program)) {
        data.settings.push_back(setting + '=' + whole);
        return;
      }
      data.links[place] = original;
    }
  };
  const auto find = [&](const char* list, const std::vector<DataSource>& sources) {
    for (size_t i = 0; i < sources.size(); ++i) {
      const DataSource& source = sources[i];
      for (const auto& [key, path] :
           {std::pair("path", source.path), std::pair("vocabulary", source.vocabulary)}) {
        if (path.empty() || path.starts_with('/')) continue;
        const std::string setting = fmt::format("data.{}.{}.{}", list, i, key);
        const bool pattern = source.format == DataSource::Format::tar && is_pattern(path);
        find_files(fmt::format("{}: {}", name, setting), path, pattern, setting);
      }
    }
  };
  find("train", spec.data.train);
  find("validation", spec.data.validation);
  return data;
}

// Called before anything is created: a copy inside the project would be copied too.
void refuse_inside(const ProjectFiles& files, const std::string& destination) {
  const std::string whole = absolute_path(destination);
  std::error_code error;
  const std::string parent = std::filesystem::canonical(parent_directory(whole), error).string();
  if (error) fail("{}: cannot copy into this folder: {}", parent_directory(whole), error.message());
  const std::string inside = files.inside(join_path(parent, file_name(whole)));
  if (!inside.empty() && (inside == "." || !files.left_out(inside, true))) {
    fail(
        "{}: cannot copy into {}, which is inside this folder; submit a smaller folder, or list "
        "{} in {}",
        files.folder(), whole, file_name(parent) + "/", kIgnoreFileName);
  }
}

}  // namespace

ProjectCopy copy_project(const ProjectFiles& files, const std::string& destination,
                         const CopyOptions& options) {
  refuse_inside(files, destination);
  Destination copy(destination, options);
  std::vector<ProjectEntry> folders;
  files.walk([&](const ProjectEntry& entry) {
    const std::string from = join_path(files.folder(), entry.path), to = copy.at(entry.path);
    if (S_ISDIR(entry.status.st_mode)) {
      if (::mkdir(to.c_str(), 0700) != 0) fail_to_write(errno, to);
      folders.push_back(entry);
    } else if (S_ISLNK(entry.status.st_mode)) {
      make_link(copied_link(files, entry.path, copy.copied()), to);
      const struct timespec times[2] = {entry.status.st_atim, entry.status.st_mtim};
      ::utimensat(AT_FDCWD, to.c_str(), times, AT_SYMLINK_NOFOLLOW);  // for show only
    } else if (S_ISREG(entry.status.st_mode)) {
      copy.copy(from, entry.path);
    } else {
      copy.warn("{} is not copied: it is neither a file nor a folder", from);
    }
  });
  for (const auto& [place, target] : files.data()) copy.link_data(place, target);
  // Inner folders first: creating an entry in a folder changes the folder's time.
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const std::string path = copy.at(folder->path);
    if (::chmod(path.c_str(), (folder->status.st_mode & 0777) | 0700) != 0) {
      fail_to_write(errno, path);
    }
    const struct timespec times[2] = {folder->status.st_atim, folder->status.st_mtim};
    if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) fail_to_write(errno, path);
  }
  return copy.finish();
}

ProjectCopy copy_program(const std::string& file, JobSpec::Kind kind,
                         const std::vector<std::string>& settings, const std::string& destination,
                         const CopyOptions& options) {
  const std::string program = user_path(file);
  if (!path_exists(program)) fail("{}: does not exist", file);
  if (is_directory(program)) fail("{}: is a folder; give a file", file);
  ArchiveData data;
  if (kind == JobSpec::Kind::archive) data = find_archive_data(file, program, settings);
  Destination copy(destination, options);
  copy.copy(std::filesystem::canonical(program).string(), file_name(program));
  for (const auto& [place, target] : data.links) copy.link_data(place, target);
  copy.copied().settings = std::move(data.settings);
  return copy.finish();
}

}  // namespace adaptdl
