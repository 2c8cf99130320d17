#pragma once

// Where the local cluster keeps what it knows. Nothing is made by asking.
//   STATE/local/state.db        jobs and events (store.h)
//   STATE/local/service.lock    flock held by the live service; its process number and start time
//   STATE/local/service.sock    the service's control socket
//   STATE/local/service.log     what a service that was started by `submit` says
//   STATE/local/jobs/NAME/      a job's folder (runner/job_folder.h says what is in it)
//   STATE/local/tensorboard/NAME/  what a TensorBoard instance shows
//   RUNTIME/service.sock        ... of an earlier version, or where STATE can hold no socket
// STATE is state_directory(), RUNTIME runtime_directory(), which goes with its user's last session,
// and which not every shell knows. ADAPTDL_LOCAL_STATE names another STATE/local, and there is no
// RUNTIME then: services of tests do not meet.

#include <string>

namespace adaptdl::local {

struct LocalPaths {
  std::string folder, database, lock, log, jobs, socket;
  std::string other_socket;  // RUNTIME's; "" if there is none

  std::string job(const std::string& name) const { return jobs + "/" + name; }
  std::string tensorboard(const std::string& name) const;
  // A new folder's path, for a submission of this process: JOBS/.incoming-PID-RANDOM.
  std::string incoming() const;
};

LocalPaths local_paths();

// Of a folder's name below LocalPaths::jobs: whether incoming() made it, and whether the process
// that did still lives.
bool is_incoming(const std::string& name);
bool submission_lives(const std::string& name);

}  // namespace adaptdl::local
