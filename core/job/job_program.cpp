// Checks that a job's program exists, and maps paths of an image to files of the project.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/program_path.h"
#include "core/job/job_file.h"

namespace adaptdl {
namespace {

using Kind = JobSpec::Kind;

bool is_file(const std::string& path) {
  return path_exists(path) && !is_directory(path);
}

// The longest end of `path` that `accept` accepts as a path in the project.
template <typename Accept>
std::optional<std::string> longest_end(const std::string& path, Accept accept) {
  const std::string clean = absolute_path(path, "/");
  for (size_t slash = 0; slash != std::string::npos; slash = clean.find('/', slash + 1)) {
    const std::string end = clean.substr(slash + 1);
    if (!end.empty() && accept(end)) return end;
  }
  return std::nullopt;
}

// Interpreters that run a script: their first argument that is not an option.
bool runs_script(const std::string& program) {
  const std::string name = file_name(program);
  for (const char* known : {"python", "bash", "sh", "dash", "perl", "ruby", "node"}) {
    // Also python3, python3.11
    if (name.starts_with(known) &&
        name.find_first_not_of("0123456789.", std::string_view(known).size()) ==
            std::string::npos) {
      return true;
    }
  }
  return false;
}

class Finder {
 public:
  Finder(JobFile& job, const std::string& project)
      : job_(job), spec_(job.spec), project_(absolute_path(project)) {}

  std::vector<std::string> run() {
    find_directory();
    if (spec_.kind == Kind::command && spec_.program.find('/') == std::string::npos) {
      check_in_path();
    } else {
      find_file();
    }
    if (job_.in_image && runs_script(spec_.program)) find_script();
    return std::move(notes_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {}", job_.program_place, fmt::format(format, std::forward<Args>(args)...));
  }

  std::string folder() const { return join_path(project_, spec_.directory); }

  void find_directory() {
    if (spec_.directory.starts_with('/')) {
      const auto end = longest_end(spec_.directory, [&](const std::string& path) {
        return is_directory(join_path(project_, path));
      });
      notes_.push_back(fmt::format("the image's working directory {} is replaced by {}",
                                   spec_.directory,
                                   end ? "the project's " + *end : "the project's folder"));
      spec_.directory = end.value_or("");
    }
    if (!spec_.directory.empty() && !is_directory(folder())) {
      refuse("the working directory {} is not in the project {}", spec_.directory, project_);
    }
  }

  void check_in_path() const {
    const auto own = spec_.environment.find("PATH");
    const char* ours = std::getenv("PATH");
    std::string_view path = ours != nullptr ? ours : "";
    if (own != spec_.environment.end()) path = own->second;
    if (find_in_path(spec_.program, path, folder()).executable) return;
    if (is_file(join_path(folder(), spec_.program))) {
      refuse("{} is not in PATH; to run the file of the project, write ./{}", spec_.program,
             spec_.program);
    }
    refuse("{} is not in PATH on this machine; {}", spec_.program,
           job_.in_image
               ? "the job file was written for an image that has it: install it here, or give "
                 "another command"
               : "install it, or give a path");
  }

  void find_file() {
    std::string place = join_path(folder(), spec_.program);
    if (!is_file(place) && job_.in_image && spec_.program.starts_with('/')) {
      const std::string found = in_project(spec_.program);
      if (found.empty()) refuse_image_path(spec_.program);
      // A command without a slash would be looked up in PATH.
      spec_.program = found.find('/') == std::string::npos ? "./" + found : found;
      place = join_path(folder(), spec_.program);
    }
    if (!path_exists(place)) {
      refuse(
          "{} is neither in the project {} nor on this machine; give its path relative to the "
          "job's working directory",
          spec_.program, project_);
    }
    if (is_directory(place)) refuse("{} is a folder; give a file to run", spec_.program);
    if (spec_.kind != Kind::archive && ::access(place.c_str(), X_OK) != 0) {
      refuse(
          "{} is not executable; run chmod +x, or put its interpreter before it, as in "
          "[python3, {}]",
          spec_.program, spec_.program);
    }
  }

  // python3 -u /root/project/train.py: the first argument that is not an option.
  void find_script() {
    for (std::string& argument : spec_.arguments) {
      if (argument == "-c" || argument == "-m") return;  // the next argument is not a path
      if (argument.starts_with('-')) continue;
      if (!argument.starts_with('/') || path_exists(argument)) return;
      const std::string found = in_project(argument);
      if (found.empty()) refuse_image_path(argument);
      argument = found;
      return;
    }
  }

  // The file of the project for a path of the image, relative to the job's working directory; "" if
  // none.
  std::string in_project(const std::string& path) {
    const auto end = longest_end(
        path, [&](const std::string& inside) { return is_file(join_path(project_, inside)); });
    if (!end) return "";
    notes_.push_back(fmt::format("{} of the image is replaced by the project's {}", path, *end));
    return std::filesystem::path(join_path(project_, *end)).lexically_relative(folder()).string();
  }

  [[noreturn]] void refuse_image_path(const std::string& path) const {
    refuse(
        "{} is not on this machine, and the project {} has no file at any end of that path: it "
        "exists only in the job's image, which does not run on one machine; add it to the "
        "project, or give another command",
        path, project_);
  }

  JobFile& job_;
  JobSpec& spec_;
  std::string project_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> find_program(JobFile& job, const std::string& project) {
  return Finder(job, project).run();
}

}  // namespace adaptdl
