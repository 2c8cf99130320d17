#pragma once

// A submission that a cluster has checked, ready to be handed to it.

#include <memory>
#include <string>
#include <vector>

#include "core/client/submission.h"
#include "core/formats/json.h"

namespace adaptdl::client {

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

}  // namespace adaptdl::client
