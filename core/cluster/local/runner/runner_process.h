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

// A process, possibly not a child of this one. The destructor does not end it.
class RunnerProcess {
 public:
  RunnerProcess() = default;

  // Starts a runner in its own process group, with standard error going to runner_errors().
  // `adaptdl` is this program's path. `supervisor` contains the job's token, so it is passed in the
  // environment, which other users cannot read, unlike a command line. Throws Error.
  static RunnerProcess start(const std::string& adaptdl, const JobFolder& folder,
                             const std::vector<int>& slots, const std::string& supervisor);
  // The runner in runner.json, if that very process lives (same pid, start time and boot).
  static RunnerProcess find(const JobFolder& folder);

  explicit operator bool() const { return static_cast<bool>(pidfd_); }
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once it has ended
  bool ended() const;
  bool send_signal(int signal) const;  // false if it has ended
  // Call it after the runner has ended: reaps a child and returns its exit code as a shell does;
  // nothing if it is not our child.
  std::optional<int> reap();

 private:
  pid_t pid_ = 0;
  Fd pidfd_;
};

// Writes runner.json for this process, which holds the folder's lock. Throws Error.
void record_runner(const JobFolder& folder);

// The last runner, if the service has not noted its end yet.
struct LastRunner {
  pid_t pid = 0;
  bool this_boot = true;
  std::string host;  // "" if an earlier version started it
};
// Nothing if there was none, or forget_runner() was called since.
std::optional<LastRunner> last_runner(const JobFolder& folder);
void forget_runner(const JobFolder& folder);

}  // namespace adaptdl::local
