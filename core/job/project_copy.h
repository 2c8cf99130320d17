#pragma once

// The snapshot of a project in which a job runs. Later changes of the project do not affect it.
// adaptdl-job(5), THE SNAPSHOT, lists its contents.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/job/job_spec.h"
#include "core/job/project_files.h"

namespace adaptdl {

struct ProjectCopy {
  uint64_t files = 0, bytes = 0;  // regular files copied
  // Sentences: what was not copied, or may be inconsistent.
  std::vector<std::string> warnings;
  // Symlinks, relative to the project, whose targets are outside of it. The targets are not part of
  // the snapshot.
  std::vector<std::string> outside_links;
  // KEY=VALUE to add to JobSpec::settings: data of an archive that cannot be linked into the copy
  // where the archive expects it.
  std::vector<std::string> settings;
};

struct CopyOptions {
  // Called after each file, and each few MiB of a large one, with what was copied so far. May throw
  // to cancel the copy.
  std::function<void(uint64_t files, uint64_t bytes)> progress;
  // Return only when the copy would survive a power cut.
  bool durable = true;
};

// Copies a project into the new folder `destination`, whose parent exists. Their owner can enter
// and change the copied folders, whatever the originals' modes are. Throws Error and removes the
// partial copy if the disk is full, something is unreadable, or `destination` exists or is inside
// the project.
ProjectCopy copy_project(const ProjectFiles& files, const std::string& destination,
                         const CopyOptions& options = {});

// The snapshot for a job of one file: the file, under its base name. For an archive also symlinks
// to the data that its settings, overridden by `settings` (JobSpec::settings), name by relative
// paths; throws Error if the settings are invalid or such data does not exist. Else as
// copy_project.
ProjectCopy copy_program(const std::string& file, JobSpec::Kind kind,
                         const std::vector<std::string>& settings, const std::string& destination,
                         const CopyOptions& options = {});

}  // namespace adaptdl
