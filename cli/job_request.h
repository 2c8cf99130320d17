#pragma once

// What `adaptdl submit` has understood, ready to be handed to a cluster.

#include <memory>
#include <string>
#include <vector>

#include "cli/parse.h"
#include "core/base/json.h"

namespace adaptdl::cli {

struct Submitted {
  std::string name;
  std::string message;  // why the job cannot run as the cluster is; "" if it can
};

// Everything is checked that can be without changing anything.
class JobRequest {
 public:
  virtual ~JobRequest() = default;
  virtual Json spec() const = 0;                       // for --dry-run
  virtual std::vector<std::string> notes() const = 0;  // what was ignored or assumed
  // Once. Throws Error; nothing is left behind then but what it says.
  virtual Submitted send() = 0;
};

// Of this machine's cluster. `arguments` outlive it.
std::unique_ptr<JobRequest> local_job_request(const Arguments& arguments);

}  // namespace adaptdl::cli
