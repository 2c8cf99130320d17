// The worker that `adaptdl run` starts for each replica of a train.pt.

#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "core/job/training_archive.h"
#include "core/launch/protocol.h"
#include "runtime/archive/script_program.h"
#include "runtime/session/run_program.h"

int main() {
  using namespace adaptdl;
  if (!std::getenv(launch::kControlFdVariable)) {
    std::fputs("adaptdl worker: started by `adaptdl run`, not by hand\n", stderr);
    return static_cast<int>(ExitCode::usage);
  }
  return run_program(read_settings, [](const ProgramContext& context) {
    return std::make_unique<ScriptProgram>(context.path, context.device,
                                           context.spec.precision == TrainingSpec::Precision::bf16);
  });
}
