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
};

LocalPaths local_paths();

}  // namespace adaptdl::local
