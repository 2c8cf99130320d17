#pragma once

// run_program() for the worker: with settings that depend on the program's path, and with hooks.
// And its beginning, which a program with a loop of its own has, too.

#include <functional>
#include <memory>
#include <string>

#include "adaptdl/run_program.h"
#include "core/job/training_spec.h"
#include "runtime/session/launch_settings.h"
#include "runtime/session/session.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

using ReadSettings = std::function<std::string(const std::string& path)>;

// Sets malloc up for training. Call before the first large allocation.
void keep_freed_memory();

struct OpenedRun {
  LaunchSettings launch;
  TrainingSpec spec;
};

// What this process is to train: by the launcher, or alone. `own_data`: as parse_training_spec().
// Throws Error for invalid settings, and where this process has trained before with a launcher or
// with checkpoints.
OpenedRun open_run(Session& session, const ReadSettings& read,
                   const std::shared_ptr<StepHooks>& hooks, bool own_data);

// As the public run_program().
int run_program(const ReadSettings& read, const MakeProgram& make,
                const std::shared_ptr<StepHooks>& hooks = std::make_shared<StepHooks>(),
                bool own_data = false);

}  // namespace adaptdl
