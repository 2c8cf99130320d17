#pragma once

// The snapshot of a project that a job runs in: later changes of the project do not reach it.
// adaptdl-job(5), THE SNAPSHOT, says what it holds.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/job/job_spec.h"
#include "core/job/project_files.h"

namespace adaptdl {

struct ProjectCopy {
  uint64_t files = 0, bytes = 0;  // regular files copied
  // Sentences: what was left out, or may be inconsistent.
  std::vector<std::string> warnings;
  // Links, relative to the project, that lead out of it: they lead to the originals, which are no
  // part of the snapshot.
  std::vector<std::string> outside_links;
  // KEY=VALUE to be added to JobSpec::settings: data of an archive that cannot be linked into the
  // copy at the place where the archive looks for it.
  std::vector<std::string> settings;
};

struct CopyOptions {
  // Hears after each file, and each few MiB of a large one, what was copied so far. May throw to
  // give up.
  std::function<void(uint64_t files, uint64_t bytes)> progress;
  // Return only when the copy would survive a power cut.
  bool durable = true;
};

// Copies a project into the new folder `destination`, whose parent exists. Its folders can be
// entered and changed by their owner, whatever the originals' modes are. Throws Error, having
// removed what was made: a full disk, something unreadable, a destination that exists or is itself
// a part of the project.
ProjectCopy copy_project(const ProjectFiles& files, const std::string& destination,
                         const CopyOptions& options = {});

// The snapshot for a job that is one file: the file, under its last name. For an archive also links
// to the data that its settings, changed by `settings` (JobSpec::settings), name by relative paths;
// throws Error if the settings are wrong or such data is not there. Else as copy_project.
ProjectCopy copy_program(const std::string& file, JobSpec::Kind kind,
                         const std::vector<std::string>& settings, const std::string& destination,
                         const CopyOptions& options = {});

}  // namespace adaptdl
