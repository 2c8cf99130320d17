#pragma once

// A job's folder and its runner's exit codes: what the service, the runner and commands that look
// agree on, named here alone.
//
// FOLDER (0700)
//   job.json      what to run (granted_job.h); written before the runner starts
//   project/      a copy of what was submitted, if there was anything to copy
//   runner.json   {pid, start_time, boot_id, version, protocol}, as soon as the runner holds the
//                 lock; removed by the service that has noted its end
//   run.lock      locked (flock) by the live runner
//   control.sock  its requests (core/launch/client.h)
//   run.json      the run's record: state, reason, cause (of a failure), exit_code, step. The
//                 states finished, failed, stopped and cancelled are there before the runner ends;
//                 any other is of a live run, or of one that was killed
//   events.jsonl, events.jsonl.1  adaptdl-events(5); of the steps at most one a second
//   logs/         replica-*.log, and runner.log for what the runner says
//   runner.log    its standard error, for what kept it from beginning
//   checkpoints/ output/ share/   the job's
//   replicas.json                 of a command: which processes live, the newest NUM_RESTARTS
// The job's own program can write all of it, so nothing there is trusted to be well-formed.

#include <array>
#include <optional>
#include <string>

#include "core/base/fd.h"

namespace adaptdl::local {

// Exit codes of a runner. With any other the job has failed, or the runner could not begin.
inline constexpr int kRunnerFinished = 0;
inline constexpr int kRunnerTaken = 75;     // EX_TEMPFAIL: another runner has the folder
inline constexpr int kRunnerStopped = 143;  // as by SIGTERM: after a checkpoint, or cancelled

// The folders that commands copy to and from; the rest is ours.
inline constexpr std::array kCopiedFolders = {"checkpoints", "logs", "output", "project", "share"};

struct JobFolder {
  std::string path;  // absolute

  std::string job_file() const;
  std::string project() const;
  std::string runner_file() const;
  std::string lock_file() const;
  std::string control_socket() const;
  std::string run_record() const;  // run.json
  std::string events_file() const;
  std::string logs() const;
  std::string runner_log() const;     // below logs()
  std::string runner_errors() const;  // runner.log
  std::string checkpoints() const;
  std::string output() const;
  std::string share() const;
  std::string replicas_file() const;
};

// The lock that a job's runner holds, for as long as it lives. Nothing if another one has it.
std::optional<Fd> lock_job_folder(const JobFolder& folder);

// Whether a runner was ever there.
bool had_runner(const JobFolder& folder);

}  // namespace adaptdl::local
