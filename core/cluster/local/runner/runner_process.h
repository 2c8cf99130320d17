#pragma once

// A job's runner: the process that runs one submitted job (`adaptdl __runner FOLDER`). It outlives
// the service, whose next start finds it again by runner.json of the job's folder.

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/fd.h"
#include "core/cluster/local/runner/job_folder.h"

namespace adaptdl::local {

// A process that may be a child of this one or not. Kept alive when this object goes.
class RunnerProcess {
 public:
  RunnerProcess() = default;

  // Starts one in a process group of its own, its standard error going to runner_errors().
  // `adaptdl` is this program's path. `supervisor` holds the job's token, so it is given by the
  // environment, which other users cannot read as they can a command line. Throws Error.
  static RunnerProcess start(const std::string& adaptdl, const JobFolder& folder,
                             const std::vector<int>& slots, const std::string& supervisor);
  // The one that runner.json names, if that very process lives (by number, start time and boot).
  static RunnerProcess find(const JobFolder& folder);

  explicit operator bool() const { return static_cast<bool>(pidfd_); }
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once it has ended
  bool ended() const;
  bool send_signal(int signal) const;  // false if it has ended
  // After it has ended: reaps a child. Its exit code as a shell has it, or nothing if it is no
  // child of ours.
  std::optional<int> reap();

 private:
  pid_t pid_ = 0;
  Fd pidfd_;
};

// Writes runner.json of this process, which holds the folder's lock. Throws Error.
void record_runner(const JobFolder& folder);

// The runner whose end nobody has noted yet.
struct LastRunner {
  pid_t pid = 0;
  bool this_boot = true;
};
// Nothing: there was none, or forget_runner() was called since.
std::optional<LastRunner> last_runner(const JobFolder& folder);
void forget_runner(const JobFolder& folder);

}  // namespace adaptdl::local
