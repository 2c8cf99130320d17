// The worker that `adaptdl run` starts for each replica of a train.pt: loads the archive, and trains
// it with the runtime's public interface.

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/base/error.h"
#include "core/job/training_archive.h"
#include "core/job/training_spec.h"
#include "runtime/archive/script_program.h"
#include "runtime/session/session.h"
#include "runtime/session/trainer.h"
#include "runtime/torch_compat.h"
#include "runtime/worker/device.h"
#include "runtime/worker/settings.h"

namespace {

using namespace adaptdl;

int work(Session& session) {
  if (!session.has_launcher()) fail("this is the worker of `adaptdl run`; it is not started by hand");
  WorkerSettings settings = WorkerSettings::from(session.settings());
  at::set_num_threads(settings.threads);
  const TrainingSpec spec =
      parse_training_spec(read_settings(settings.program), settings.program + ": adaptdl.yaml",
                          settings.overrides);
  settings.options.device = open_device(settings.device);
  ScriptProgram program(settings.program, settings.options.device,
                        spec.precision == TrainingSpec::Precision::bf16);
  return train(program, spec, settings.options, session);
}

}  // namespace

int main() {
  try {
    Session session;
    try {
      return work(session);
    } catch (const Error& error) {
      session.send({{"type", "fatal"},
                    {"message", error.what()},
                    {"exit", static_cast<int>(error.exit_code())}});
      std::fprintf(stderr, "adaptdl worker: %s\n", error.what());
      return static_cast<int>(error.exit_code());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adaptdl worker: %s\n", error.what());
    return 1;
  }
}
