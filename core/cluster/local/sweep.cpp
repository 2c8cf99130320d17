#include "core/cluster/local/sweep.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/cluster/local/runner/granted_job.h"
#include "core/formats/json.h"

namespace adaptdl::local {

namespace {

constexpr size_t kMaxJobFile = 8u << 20;
constexpr size_t kMostNamed = 10;

// The job of the folder, by its job.json; "" if it is not a job's.
std::string job_of(const JobFolder& folder) {
  const std::string file = folder.job_file();
  if (!path_exists(file)) return "";
  try {
    return granted_name(parse_json(read_file(file, kMaxJobFile), file), file);
  } catch (const Error&) {
    return "";
  }
}

// Whether a submission that never reached the store left this folder. A runner would have left its
// lock.
bool never_stored(const JobFolder& folder, const std::string& name) {
  return !had_runner(folder) && job_of(folder) == name;
}

// Whether a power cut left only this of a submission: job.json without its content.
bool is_blank(const JobFolder& folder) {
  const std::vector<std::string> names = list_directory(folder.path);
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const std::string path = join_path(folder.path, name);
    return name.find("job.json") != name.npos && !is_directory(path) && file_size(path) == 0;
  });
}

}  // namespace

void sweep_incoming(const LocalPaths& paths, const KnownJob& known, Seconds age) {
  for (const std::string& name : list_directory(paths.jobs)) {
    if (!is_incoming(name) || submission_lives(name)) continue;
    const std::string folder = paths.job(name);
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0) continue;  // whoever deleted the job has removed it
    const double unchanged_s = wall_now_s() - static_cast<double>(status.st_mtime);
    if (age.count() > 0 && unchanged_s < age.count()) continue;
    try {
      const std::string job = job_of({folder});
      if (!job.empty() && known(job) && !path_exists(paths.job(job))) {
        if (std::rename(folder.c_str(), paths.job(job).c_str()) != 0) fail_errno(errno, folder);
        sync_directory(paths.jobs);
      } else {
        remove_tree(folder);
      }
    } catch (const Error& error) {
      log_warning("{}; the folder is kept", error.what());
      continue;  // with those behind it
    }
    if (age.count() > 0) return;  // one at a time: it may be large
  }
}

void sweep_jobs(const LocalPaths& paths, const KnownJob& known) {
  sweep_incoming(paths, known, Seconds(0));
  std::vector<std::string> strangers;
  size_t more = 0;
  for (const std::string& name : list_directory(paths.jobs)) {
    if (known(name) || is_incoming(name)) continue;
    const std::string folder = paths.job(name);
    try {
      if (never_stored({folder}, name) || (is_directory(folder) && is_blank({folder}))) {
        remove_tree(folder);
      } else if (::rmdir(folder.c_str()) != 0) {  // removes it only if it is empty
        if (strangers.size() < kMostNamed) {
          strangers.push_back(name);
        } else {
          ++more;
        }
      }
    } catch (const Error& error) {
      log_warning("{}; the folder is kept", error.what());
    }
  }
  if (strangers.empty()) return;
  log_warning("{}: no known job owns {}{}; remove them if you do not need their contents",
              paths.jobs, fmt::join(strangers, ", "),
              more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace adaptdl::local
