#include "core/launch/command_run.h"

#include <signal.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/launch/command_launcher.h"
#include "core/launch/hand_out.h"
#include "core/launch/paths.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

int run_command(const CommandOptions& options, const std::vector<EventSink>& sinks,
                const Talk& talk) {
  check_run_name(options.name);
  const ReplicaBounds& replicas = options.replicas;
  if (replicas.min < 1 || replicas.initial < replicas.min || replicas.max < replicas.initial) {
    throw UsageError(fmt::format("replicas: {} to {}, starting with {}, cannot be", replicas.min,
                                 replicas.max, replicas.initial));
  }
  check_slots(options.slots, options.slots_per_replica, replicas.initial);
  if (options.gpus > 0) check_gpus(options.slots, options.gpus);
  if (!options.supervisor_url.empty()) answers(options.supervisor_url);  // it is an address
  Output output(sinks, talk);
  SignalCatcher signals(caught_signals());
  int code = 1;
  {
    CommandLauncher launcher(options, output, signals);
    code = launcher.run();
  }
  hand_out(output, signals);
  return code;
}

}  // namespace adaptdl::launch
