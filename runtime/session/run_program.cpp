#include "runtime/session/run_program.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <malloc.h>

#include "adaptdl/env.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/system.h"
#include "runtime/data/guarded_read.h"
#include "runtime/session/deterministic.h"
#include "runtime/session/device.h"
#include "runtime/session/evaluation.h"
#include "runtime/session/launch_settings.h"
#include "runtime/session/program_data.h"
#include "runtime/session/session.h"
#include "runtime/session/step_failure.h"
#include "runtime/session/trainer.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

int train_in(Session& session, const ReadSettings& read, const MakeProgram& make,
             const std::shared_ptr<StepHooks>& hooks, bool own_data) {
  auto [launch, spec] = open_run(session, read, hooks, own_data);
  fit_schedule(spec);
  const auto program = make({launch.options.device, launch.program, launch.arguments});
  TrainOptions options = launch.options;
  options.data = open_program_data(program->data(), spec, options.data_dir);
  return launch.evaluate ? evaluate(*program, spec, options, session)
                         : train(*program, spec, options, session);
}

std::atomic<bool> trains_for_good{false};  // with a launcher, or with checkpoints

// The launcher's channel is taken by then, and the checkpoints are those of the first training.
void check_only_training() {
  if (trains_for_good) fail("one training for a process; start another program for the next");
}

int report(const std::string& message, ExitCode code) {
  std::fprintf(stderr, "adaptdl: %s\n", message.c_str());
  return static_cast<int>(code);
}

}  // namespace

// Every step allocates and frees the same large blocks. By default malloc returns them to the
// system each time, and the page faults of new ones take up to a quarter of a step.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that glibc accepts
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

OpenedRun open_run(Session& session, const ReadSettings& read,
                   const std::shared_ptr<StepHooks>& hooks, bool own_data) {
  check_only_training();
  LaunchSettings launch;
  if (session.has_launcher()) {
    launch = LaunchSettings::from(session.settings());
  } else {
    launch.program = absolute_path("/proc/self/exe");
    launch.options.data_dir = ".";
    launch.options.model_path = "model.pt";
    launch.options.best_path = "best.pt";
    launch.options.checkpoint_dir = env::checkpoint_path().value_or("");
    launch.options.replicas = session.promised_replicas();
    if (session.alone() && !launch.options.checkpoint_dir.empty()) session.stop_on_signals();
    if (session.rank() == 0 && !gpus().empty() && at::globalContext().hasCUDA()) {
      log_warning(
          "training on the CPU, though there is a GPU; to train on it, start the program by "
          "`adaptdl run`");
    }
  }
  trains_for_good = session.has_launcher();
  TrainingSpec spec = parse_training_spec(read(launch.program), launch.program + ": adaptdl.yaml",
                                          launch.overrides, own_data);
  launch.options.device = open_device(launch.device);
  if (spec.deterministic) {
    compute_deterministically(spec, launch.options.device);
  } else {
    at::set_num_threads(launch.threads);
  }
  session.set_accelerator(accelerator_kind(launch.options.device));
  launch.options.hooks = hooks;
  if (!launch.options.checkpoint_dir.empty()) trains_for_good = true;
  return {std::move(launch), std::move(spec)};
}

int run_program(const ReadSettings& read, const MakeProgram& make,
                const std::shared_ptr<StepHooks>& hooks, bool own_data) {
  keep_freed_memory();
  try {
    Session session;
    const auto give_up = [&session](const std::string& message, ExitCode code,
                                    const nlohmann::json& more = nlohmann::json::object()) {
      nlohmann::json fatal = {
          {"type", "fatal"}, {"message", message}, {"exit", static_cast<int>(code)}};
      fatal.update(more);
      session.send(fatal);
      return report(message, code);
    };
    try {
      return train_in(session, read, make, hooks, own_data);
    } catch (const StepFailure& failure) {
      return give_up(failure.what(), failure.exit_code(), {{"step", failure.step}});
    } catch (const data::ReadFailed& error) {
      return give_up(error.what(), error.exit_code(), {{"others_too", false}});
    } catch (const Error& error) {
      return give_up(error.what(), error.exit_code());
    } catch (const std::exception& error) {
      return give_up(reason_of(error), ExitCode::error);
    }
  } catch (const Error& error) {
    return report(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return report(error.what(), ExitCode::error);
  }
}

int run_program(const std::string& settings, const MakeProgram& make) {
  return run_program([&settings](const std::string&) { return settings; }, make,
                     std::make_shared<StepHooks>(), /*own_data=*/true);
}

}  // namespace adaptdl
