#pragma once

// Which files of a project's folder belong to a job: all except those that .adaptdlignore lists,
// .git and the folders *.run of runs (unless .adaptdlignore includes them, "!.git"), and the large
// data that is linked instead (JobSpec::data). adaptdl-job(5), THE SNAPSHOT.

#include <cstdint>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "core/formats/ignore_rules.h"

namespace adaptdl {

inline constexpr const char* kIgnoreFileName = ".adaptdlignore";

struct ProjectEntry {
  std::string path;    // relative to the project's folder
  struct stat status;  // of the link itself if it is one
};

// Immutable; may be used by many threads.
class ProjectFiles {
 public:
  struct DataLink {
    std::string place;   // relative to the project's folder
    std::string target;  // absolute
  };

  // `data`: paths relative to `folder` or absolute. Throws Error if the folder or data do not
  // exist, or if two things would have the same place.
  explicit ProjectFiles(const std::string& folder, const std::vector<std::string>& data = {});

  const std::string& folder() const { return folder_; }  // absolute, without links
  const std::vector<DataLink>& data() const { return data_; }

  // Visits every entry that belongs to the job, sorted, folders before their entries; does not
  // follow symlinks. Throws Error for unreadable entries.
  void walk(const std::function<void(const ProjectEntry&)>& visit) const;

  // Whether a path in the project is not copied; true also for linked data.
  bool left_out(const std::string& path, bool is_directory) const;

  // An absolute path relative to the project's folder: "." for the folder itself, "" if the path is
  // outside. Compares text only.
  std::string inside(const std::string& path) const;

 private:
  void add_data(const std::string& path);
  void walk_folder(const std::string& folder,
                   const std::function<void(const ProjectEntry&)>& visit) const;

  std::string given_;  // absolute, as the user gave it
  std::string folder_;
  IgnoreRules rules_;
  std::vector<DataLink> data_;
};

struct ProjectSize {
  uint64_t files = 0, bytes = 0;
  // Bytes of the entries at the project's top, largest first; names of folders end with '/'.
  std::vector<std::pair<std::string, uint64_t>> largest;
};

// The size of a copy, for a warning before copying. Throws Error as ProjectFiles::walk.
ProjectSize measure_project(const ProjectFiles& files);

}  // namespace adaptdl
