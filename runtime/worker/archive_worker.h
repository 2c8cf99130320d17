#pragma once

#include <memory>

#include "runtime/session/step_hooks.h"

namespace adaptdl {

// The `main` of the worker that `adaptdl run` starts for each replica of a train.pt; returns the
// process's exit code.
int run_archive_worker(const std::shared_ptr<StepHooks>& hooks = std::make_shared<StepHooks>());

}  // namespace adaptdl
