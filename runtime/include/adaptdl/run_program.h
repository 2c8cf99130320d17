#pragma once

// The `main` of a program that trains with this library.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "adaptdl/program.h"

namespace adaptdl {

// What a program is made from.
struct ProgramContext {
  at::Device device;
  std::string path;                    // of this executable
  std::vector<std::string> arguments;  // what followed `--` on the command line of `adaptdl run`
};

using MakeProgram = std::function<std::unique_ptr<Program>(const ProgramContext& context)>;

// Joins the run that started this process, or trains as a single replica without a launcher;
// returns the process's exit code. `settings` is the text of an adaptdl.yaml (adaptdl-train(5));
// --set overrides it. `make` runs once, before training. Call it first in main, before other
// threads start. Never throws: it reports errors to the launcher and on stderr.
int run_program(const std::string& settings, const MakeProgram& make);

}  // namespace adaptdl
