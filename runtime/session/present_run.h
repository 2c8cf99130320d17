#pragma once

// What `adaptdl run` has told this process, for adaptdl/env.h: it sets no variables, as they could
// not follow a rescale.

#include <string>

namespace adaptdl {

struct PresentRun {
  std::string job_id, checkpoint_path;  // "" = none
  int rank = 0, replicas = 1, nodes = 1;
};

void set_present_run(const PresentRun& run);  // any thread

}  // namespace adaptdl
