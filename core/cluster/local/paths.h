#pragma once

// Where the local cluster keeps what it knows. Nothing is made by asking.
//   STATE/local/state.db        jobs and events (store.h)
//   STATE/local/service.lock    flock held by the live service
//   STATE/local/service.log     what a service that was started by `submit` says
//   STATE/local/jobs/NAME/      a job's folder (runner.h says what is in it)
//   RUNTIME/service.sock        the service's control socket
// STATE is state_directory(), RUNTIME runtime_directory(). ADAPTDL_LOCAL_STATE names another
// STATE/local, whose socket is then in it too: services of tests do not meet.

#include <string>

namespace adaptdl::local {

struct LocalPaths {
  std::string folder, database, lock, log, jobs, socket;

  std::string job(const std::string& name) const { return jobs + "/" + name; }
  // A new folder's path, for a submission of this process: JOBS/.incoming-PID-RANDOM.
  std::string incoming() const;
};

LocalPaths local_paths();

// Of a folder's name below LocalPaths::jobs: whether incoming() made it, and whether the process
// that did still lives.
bool is_incoming(const std::string& name);
bool submission_lives(const std::string& name);

}  // namespace adaptdl::local
