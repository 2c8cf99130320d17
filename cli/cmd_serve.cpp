#include <csignal>
#include <poll.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/policy_words.h"
#include "cli/service_unit.h"
#include "cli/version.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/process.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/service.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kStopPatience{10};

// One that does not answer, or listens elsewhere.
int stop_by_signal(const local::ServiceProcess& service) {
  syscall(SYS_pidfd_send_signal, service.pidfd.get(), SIGTERM, nullptr, 0);
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kStopPatience);
  pollfd wait{service.pidfd.get(), POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(limit.count())) <= 0) {
    fail("the service (process {}) has not ended in {} s", service.pid, kStopPatience.count());
  }
  talk("The service has ended; jobs that train go on, and `adaptdl serve` finds them again.");
  return 0;
}

int stop() {
  if (!local::service_runs()) {
    if (const auto service = local::service_process()) return stop_by_signal(*service);
  }
  const Json hello = local::request_service({{"request", "hello"}});
  local::request_service({{"request", "stop"}});
  const TimePoint deadline =
      Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(kStopPatience);
  while (local::service_runs()) {
    if (Monotonic::now() > deadline) {
      fail("the service (process {}) has not ended in {} s", hello["pid"].get<int>(),
           kStopPatience.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto jobs = json_get_or<int64_t>(hello, "jobs", "service", 0);
  talk(jobs == 0 ? "The service has ended."
                 : fmt::format("The service has ended; {} job{} not. Those that train go on; "
                               "`adaptdl serve` finds them again.",
                               jobs, jobs == 1 ? " has" : "s have"));
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.flag("stop")) return stop();
  if (arguments.flag("install")) return install_unit(arguments.quiet());
  local::ServiceOptions options;
  options.paths = local::local_paths();
  options.adaptdl = this_program();
  options.version = version();
  options.config = local::config_path();
  if (arguments.given("slots")) options.slots = static_cast<int>(arguments.integer("slots"));
  if (arguments.given("policy")) options.policy = arguments.text("policy");
  options.policy_options = policy_options(arguments.list("policy-option"));
  if (!options.policy_options.empty() && !options.policy) {
    throw UsageError("--policy-option: name the --policy too.");
  }
  raise_descriptor_limit();  // each held poll is one
  local::Service(options).run();
  return 0;
}

}  // namespace

Command serve_command() {
  return {.name = "serve",
          .summary = "Share this machine among submitted jobs",
          .text = embedded("cmd_serve.md"),
          .options = {{.name = "slots",
                       .kind = Kind::integer,
                       .value = "N",
                       .doc = "Slots to share out. Default: the GPUs or, without any, the cores.",
                       .min = 1,
                       .max = 1024},
                      {.name = "policy",
                       .kind = Kind::text,
                       .value = "NAME",
                       .doc = "Scheduling policy (adaptdl-policy(5)). Default: the "
                              "configuration's, or proportional."},
                      {.name = "policy-option",
                       .kind = Kind::text,
                       .value = "OPTION=NUMBER",
                       .doc = "An option of that policy.",
                       .repeat = true},
                      {.name = "stop", .doc = "End the service that runs; jobs go on."},
                      {.name = "install",
                       .doc = "Write a systemd user unit that starts the service with the "
                              "machine."}},
          .examples = {{"adaptdl serve --slots 2 --policy pollux", "Share two slots by Pollux."},
                       {"adaptdl serve --stop", "End it; jobs go on."}},
          .run = run};
}

}  // namespace adaptdl::cli
