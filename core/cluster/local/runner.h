#pragma once

// A job's runner: the process that runs one submitted job (`adaptdl __runner FOLDER`). It outlives
// the service, whose next start finds it again by its folder:
//   job.json      what to run; written before the runner starts
//   runner.json   {pid, start_time, boot_id, version, protocol}; by the runner, once it has
//   run.lock;
//                 removed by the service that has noted its end
//   run.json      {state, reason, cause, exit_code, step, ...}; the final state before it exits
//   control.sock  status, scale, cancel (core/launch/client.h)
//   project/ checkpoints/ output/ logs/ share/ events.jsonl
// The job's own program can write all of it, so nothing there is trusted to be well-formed.
// Exit codes: 0 finished, 143 stopped after a checkpoint, kRunnerTaken another runner has the job.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl::local {

inline constexpr int kRunnerTaken = 75;     // EX_TEMPFAIL
inline constexpr int kRunnerStopped = 143;  // as by SIGTERM

// A process that may be a child of this one or not. Kept alive when this object goes.
class RunnerProcess {
 public:
  RunnerProcess() = default;

  // Starts one in a process group of its own, its standard error going to FOLDER/runner.log.
  // `adaptdl` is this program's path. `supervisor` holds the job's token, so it is given by the
  // environment, which other users cannot read as they can a command line. Throws Error.
  static RunnerProcess start(const std::string& adaptdl, const std::string& folder,
                             const std::vector<int>& slots, const std::string& supervisor);
  // The one that runner.json names, if that very process lives (by number, start time and boot).
  static RunnerProcess find(const std::string& folder);

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

// The runner whose end nobody has noted yet.
struct LastRunner {
  pid_t pid = 0;
  bool this_boot = true;
};
// Nothing: there was none, or forget_runner() was called since.
std::optional<LastRunner> last_runner(const std::string& folder);
void forget_runner(const std::string& folder);

// How a runner says that its run ended.
struct RunnerEnd {
  std::string state;  // finished, failed, stopped, cancelled; "" or another: it did not come so far
  std::string reason;  // a sentence
  std::string cause;   // of a failure: ReplicaFailed, OutOfMemory, CannotStart
  int64_t step = 0;
  std::optional<int> exit_code, program_exit_code;
};
// What run.json says of the runner with this number: nothing if it is an earlier one's, or damaged.
RunnerEnd runner_end(const std::string& folder, pid_t pid);

// One request to a runner's control socket, without ever waiting. Part of an event loop.
class RunnerQuery {
 public:
  // Connects and sends. If nobody is there who could answer, it is over at once.
  RunnerQuery(const std::string& socket, const nlohmann::json& request, Seconds timeout);

  int fd() const { return socket_.get(); }  // wait for POLLIN
  TimePoint deadline() const { return deadline_; }
  // Reads what is there. True: it is over; answer() is what came, null if nothing did.
  bool serve();
  const nlohmann::json& answer() const { return answer_; }

 private:
  Fd socket_;
  std::string received_;
  TimePoint deadline_;
  nlohmann::json answer_;
};

}  // namespace adaptdl::local
