#pragma once

// run_program() for the worker: with settings that depend on the program's path, and with hooks.

#include <functional>
#include <memory>
#include <string>

#include "adaptdl/run_program.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

using ReadSettings = std::function<std::string(const std::string& path)>;

// As the public run_program().
int run_program(const ReadSettings& read, const MakeProgram& make,
                const std::shared_ptr<StepHooks>& hooks = std::make_shared<StepHooks>());

}  // namespace adaptdl
