#pragma once

// A job's runner: the process that runs one submitted job (`adaptdl __runner FOLDER`). It outlives
// the service, whose next start finds it again by its folder:
//   job.json      what to run; written before the runner starts
//   runner.json   {pid, start_time, boot_id, version, protocol}; by the runner, once it has
//   run.lock run.json      {state, reason, exit_code, step, ...}; the final state before it exits
//   control.sock  status, scale, cancel (core/launch/client.h)
//   project/ checkpoints/ output/ logs/ share/ events.jsonl
// Exit codes: 0 finished, 143 stopped after a checkpoint, kRunnerTaken another runner has the job.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl::local {

inline constexpr int kRunnerTaken = 75;  // EX_TEMPFAIL

// A process that may be a child of this one or not. Kept alive when this object goes.
class RunnerProcess {
 public:
  RunnerProcess() = default;

  // Starts one in a session of its own, its standard error going to FOLDER/runner.log. `adaptdl` is
  // this program's path. Throws Error.
  static RunnerProcess start(const std::string& adaptdl, const std::string& folder,
                             const std::vector<std::string>& arguments);
  // The one that runner.json names, if that very process lives (by number, start time and boot).
  static RunnerProcess find(const std::string& folder);
  // The number of the last one, be it alive or not; 0 if there was none.
  static pid_t last_pid(const std::string& folder);

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

// What run.json says; null if there is none, or it cannot be read.
nlohmann::json runner_record(const std::string& folder);

// One request to a runner's control socket, without ever waiting. Part of an event loop.
class RunnerQuery {
 public:
  // Connects and sends. Not live() if nobody answers there now.
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
