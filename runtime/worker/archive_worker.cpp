#include "runtime/worker/archive_worker.h"

#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "core/job/training_archive.h"
#include "core/launch/io/protocol.h"
#include "runtime/archive/script_program.h"
#include "runtime/session/run_program.h"

namespace adaptdl {

int run_archive_worker(const std::shared_ptr<StepHooks>& hooks) {
  if (!std::getenv(launch::kControlFdVariable)) {
    std::fputs("adaptdl worker: started by `adaptdl run`, not by hand\n", stderr);
    return static_cast<int>(ExitCode::usage);
  }
  const auto make = [](const ProgramContext& context) {
    return std::make_unique<ScriptProgram>(context.path, context.device);
  };
  return run_program(read_settings, make, hooks);
}

}  // namespace adaptdl
