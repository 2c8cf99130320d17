#pragma once

// A submission that a cluster has checked and that is ready to be sent.

#include <memory>
#include <string>
#include <vector>

#include "core/client/submission.h"
#include "core/formats/json.h"

namespace adaptdl::client {

struct Submitted {
  std::string name;
  std::string message;  // why the job cannot run in the present cluster; "" if it can
};

// Everything has been checked that can be without changing anything.
class JobRequest {
 public:
  virtual ~JobRequest() = default;
  virtual Json spec() const = 0;                       // for --dry-run
  virtual std::vector<std::string> notes() const = 0;  // what was ignored or assumed
  // Call once. Throws Error; then nothing remains except what the message names.
  virtual Submitted send() = 0;
};

}  // namespace adaptdl::client
