#pragma once

// The files of the local cluster. None of these functions creates one.
//   STATE/local/state.db        jobs and events (store.h)
//   STATE/local/service.lock    flock held by the live service; has its process id, start time and
//                               host
//   STATE/local/service.sock    the service's control socket
//   STATE/local/service.log     the log of a service that `submit` started
//   STATE/local/jobs/NAME/      a job's folder (runner/job_folder.h lists its files)
//   STATE/local/tensorboard/NAME/  the data of a TensorBoard instance
//   RUNTIME/service.sock        ... of an earlier version, or if STATE does not support sockets
// STATE is state_directory(). RUNTIME is runtime_directory(): the system removes it after its
// user's last session, and not every shell knows it. ADAPTDL_LOCAL_STATE names another STATE/local;
// RUNTIME is not used then, so that services of tests do not meet.

#include <string>

namespace adaptdl::local {

struct LocalPaths {
  std::string folder, database, lock, log, jobs, socket;
  std::string other_socket;  // in RUNTIME; "" if there is none

  std::string job(const std::string& name) const { return jobs + "/" + name; }
  std::string tensorboard(const std::string& name) const;
  // The path of a new folder for a submission of this process: JOBS/.incoming-PID-RANDOM.
  std::string incoming() const;
  // The path to which a deleted job's folder is renamed until it is removed: as incoming(), but of
  // no living process.
  std::string outgoing() const;
};

LocalPaths local_paths();

// For the name of a folder below LocalPaths::jobs: whether incoming() or outgoing() made it, and
// whether its process still lives.
bool is_incoming(const std::string& name);
bool submission_lives(const std::string& name);

}  // namespace adaptdl::local
