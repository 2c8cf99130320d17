#pragma once

// Requests of the control socket about jobs (client.h).

#include <string>

#include "core/cluster/local/active_jobs.h"
#include "core/cluster/local/local_supervisor.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/paths.h"
#include "core/formats/json.h"

namespace adaptdl::local {

class JobRequests {
 public:
  // Borrows all for its life.
  JobRequests(ActiveJobs& jobs, LocalSupervisor& supervisor, const Machine& machine,
              const LocalPaths& paths)
      : jobs_(jobs), supervisor_(supervisor), machine_(machine), paths_(paths) {}

  // submit, scale, suspend, resume, cancel, delete: returns the answer once the change is on disk.
  // Throws Error if the request is refused or cannot be stored; nothing has changed then, but that
  // a cancelled job is stopped all the same.
  Json carry_out(const std::string& kind, const Json& request);

 private:
  Json submit(const Json& request);
  void cancel(ActiveJob& job);
  Json scale(const Json& request);
  Json remove(const Json& request);
  std::string new_name(const JobSpec& spec);
  ActiveJob& find(const Json& request);

  ActiveJobs& jobs_;
  LocalSupervisor& supervisor_;
  const Machine& machine_;
  const LocalPaths& paths_;
};

}  // namespace adaptdl::local
