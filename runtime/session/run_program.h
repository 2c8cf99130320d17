#pragma once

// What run_program() is made of, for the worker: settings that depend on the program's path, and
// hooks.

#include <functional>
#include <memory>
#include <string>

#include "adaptdl/run_program.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

using ReadSettings = std::function<std::string(const std::string& path)>;

// As the public run_program().
int run_program(const ReadSettings& read, const MakeProgram& make,
                std::shared_ptr<StepHooks> hooks = std::make_shared<StepHooks>());

}  // namespace adaptdl
