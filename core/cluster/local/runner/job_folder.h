#pragma once

// A job's folder and its runner's exit codes, as the service, the runner and commands use them.
//
// FOLDER (0700)
//   job.json      what to run (granted_job.h); written before the runner starts
//   project/      a copy of the submitted project, if there is one
//   runner.json   {pid, start_time, boot_id, host, version, protocol}; the runner writes it as soon
//                 as it holds the lock, and the service removes it after noting the runner's end
//   run.lock      locked (flock) by the live runner
//   control.sock  the runner's control socket (core/launch/client.h)
//   run.json      the run's record: state, reason, cause (of a failure), exit_code, step. The
//                 states finished, failed, stopped and cancelled are written before the runner
//                 ends; any other state is that of a live or a killed run
//   events.jsonl, events.jsonl.1  adaptdl-events(5); at most one step event a second
//   logs/         replica-*.log, and runner.log for the runner's messages
//   runner.log    the runner's standard error: why it could not start
//   checkpoints/ output/ share/   the job's
//   replicas.json                 of a command: which processes live, the newest NUM_RESTARTS
// The job's own program can write all of these files, so readers must not trust their contents.

#include <array>
#include <optional>
#include <string>

#include "core/base/fd.h"

namespace adaptdl::local {

// Exit codes of a runner. Any other code: the job has failed, or the runner could not start.
inline constexpr int kRunnerFinished = 0;
inline constexpr int kRunnerDiskFull = 74;  // EX_IOERR: it could not write; it may start later
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

// Takes the lock that a job's runner holds while it lives. Nothing if another runner holds it.
std::optional<Fd> lock_job_folder(const JobFolder& folder);
// Whether a runner holds it now, here or wherever the folder is shared.
bool job_folder_locked(const JobFolder& folder);

// Makes the folder's name, the names in it and job.json durable.
void sync_job_folder(const JobFolder& folder);

// Whether a runner was ever started.
bool had_runner(const JobFolder& folder);

}  // namespace adaptdl::local
