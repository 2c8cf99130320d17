#pragma once

// From the flags of `adaptdl submit` to what the service is asked to run.

#include <string>
#include <vector>

#include "cli/parse.h"
#include "core/job/job_spec.h"

namespace adaptdl::cli {

struct Submission {
  JobSpec spec;
  // What is copied for the job: a folder, one file, or nothing ("").
  std::string source;
  std::vector<std::string> notes;  // sentences for the user: what was ignored or assumed
};

// Reads the job file, the archive's or program's first bytes, and the flags; checks all that can be
// checked without running it. Copies nothing. Throws UsageError or Error.
Submission read_submission(const Arguments& arguments);

// A folder without a job file may be a training archive with its data: then makes `spec` the job
// that trains it, and is true.
inline constexpr const char* kArchiveName = "train.pt";
bool set_archive(JobSpec& spec, const std::string& folder);

// A job file's text; "-" is standard input.
std::string read_job_text(const std::string& path);

}  // namespace adaptdl::cli
