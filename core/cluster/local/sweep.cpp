#include "core/cluster/local/sweep.h"

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

// Whether a submission that never reached the store left this folder. A runner would have left its
// lock.
bool never_stored(const JobFolder& folder, const std::string& name) {
  const std::string file = folder.job_file();
  if (!path_exists(file) || had_runner(folder)) return false;
  try {
    return granted_name(parse_json(read_file(file, kMaxJobFile), file), file) == name;
  } catch (const Error&) {  // not a job's folder
    return false;
  }
}

}  // namespace

void sweep_jobs(const LocalPaths& paths, const std::function<bool(const std::string&)>& known) {
  std::vector<std::string> strangers;
  size_t more = 0;
  for (const std::string& name : list_directory(paths.jobs)) {
    if (known(name) || submission_lives(name)) continue;
    const std::string folder = paths.job(name);
    try {
      if (is_incoming(name) || never_stored({folder}, name)) {
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
