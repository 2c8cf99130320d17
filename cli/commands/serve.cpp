#include <csignal>
#include <map>
#include <poll.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/policy_words.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/process.h"
#include "core/base/version.h"
#include "core/client/local/service_unit.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/service.h"
#include "core/policy/policy.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kStopPatience{10};

[[noreturn]] void fail_to_stop(pid_t pid) {
  fail("the service (process {}) has not ended in {} s", pid, kStopPatience.count());
}

void wait_for_process(const local::ServiceProcess& service) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kStopPatience);
  pollfd wait{service.pidfd.get(), POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(limit.count())) <= 0) fail_to_stop(service.pid);
}

// For a service that does not answer, or listens elsewhere.
int stop_by_signal(const local::ServiceProcess& service) {
  syscall(SYS_pidfd_send_signal, service.pidfd.get(), SIGTERM, nullptr, 0);
  wait_for_process(service);
  talk("The service has ended; running jobs continue, and `adaptdl serve` takes them over again.");
  return 0;
}

int stop() {
  const auto service = local::service_process();
  if (service && !local::service_runs()) return stop_by_signal(*service);
  const Json hello = local::request_service({{"request", "hello"}});
  local::request_service({{"request", "stop"}});
  // It first stops listening, and closes its store before another one can start.
  if (service) wait_for_process(*service);
  const TimePoint begun = Monotonic::now();
  while (!service && (local::service_runs() || local::service_locked())) {
    if (seconds_since(begun) > kStopPatience.count()) fail_to_stop(hello["pid"].get<pid_t>());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto jobs = json_get_or<int64_t>(hello, "jobs", "service", 0);
  talk(jobs == 0 ? "The service has ended."
                 : fmt::format("The service has ended; {} job{} not. Running jobs continue; "
                               "`adaptdl serve` takes them over again.",
                               jobs, jobs == 1 ? " has" : "s have"));
  return 0;
}

local::SlotCounts slots_flag(const std::string& text) {
  try {
    return local::parse_slot_counts(text);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--slots: {}.", error.what()));
  }
}

// The flags with which the unit starts the service.
std::vector<std::string> unit_flags(const Arguments& arguments) {
  std::vector<std::string> flags;
  for (const char* name : {"slots", "policy"}) {
    if (arguments.given(name)) flags.push_back(fmt::format("--{}={}", name, arguments.text(name)));
  }
  for (const std::string& option : arguments.list("policy-option")) {
    flags.push_back("--policy-option=" + option);
  }
  return flags;
}

// Whoever writes the unit is told of a mistake, which else only the log of the service has.
void check_policy(const std::string& name, const std::map<std::string, double>& options) {
  try {
    make_policy(name, options);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--policy: {}.", error.what()));
  }
}

int run_serve(const Arguments& arguments) {
  if (arguments.flag("stop")) {
    if (arguments.flag("install")) {
      throw UsageError("--stop and --install exclude each other; remove one of the two.");
    }
    for (const char* flag : {"slots", "policy", "policy-option"}) {
      if (arguments.on_line(flag)) throw UsageError(fmt::format("--stop: omit --{}.", flag));
    }
    return stop();
  }
  local::ServiceOptions options;
  options.paths = local::local_paths();
  options.adaptdl = this_program();
  options.version = version();
  options.config = local::config_path();
  if (arguments.given("slots")) options.slots = slots_flag(arguments.text("slots"));
  if (arguments.given("policy")) options.scheduling.policy = arguments.text("policy");
  options.scheduling.options = policy_options(arguments.list("policy-option"));
  if (!options.scheduling.options.empty() && !options.scheduling.policy) {
    throw UsageError("--policy-option: name the --policy too.");
  }
  if (arguments.flag("install")) {
    if (options.scheduling.policy) {
      check_policy(*options.scheduling.policy, options.scheduling.options);
    }
    return install_unit(unit_flags(arguments), arguments.quiet());
  }
  raise_descriptor_limit();  // each long poll needs one
  local::Service(options).run();
  return 0;
}

}  // namespace

Command serve_command() {
  static const std::string policy_doc = fmt::format(
      "Scheduling policy (adaptdl-policy(5)). Default: that of the configuration file, "
      "else {}.",
      default_policy());
  return {
      .name = "serve",
      .summary = "Share this machine among submitted jobs",
      .text = embedded("serve.md"),
      .options =
          {{.name = "slots",
            .kind = Kind::text,
            .value = "N|KIND=N,...",
            .doc = "Number of slots, or of those of each kind. Default: one for each GPU, of the "
                   "kind that its driver tells, or, without GPUs, for each core."},
           {.name = "policy",
            .kind = Kind::suggested,
            .value = "NAME",
            .doc = policy_doc,
            .choices = policy_names()},
           {.name = "policy-option",
            .kind = Kind::text,
            .value = "OPTION=NUMBER",
            .doc = "Set an option of the policy.",
            .repeat = true},
           {.name = "stop", .doc = "Stop the running service; jobs keep running."},
           {.name = "install",
            .doc = "Install a systemd user unit that starts the service, with the other flags, "
                   "when the machine starts."}},
      .examples = {{"adaptdl serve --slots 2 --policy pollux",
                    "Share two slots with the policy Pollux."},
                   {"adaptdl serve --slots fast=8,slow=16",
                    "Eight fast cores, which have the lowest numbers, and sixteen slow ones."},
                   {"adaptdl serve --stop", "Stop it; jobs keep running."}},
      .run = run_serve};
}

}  // namespace adaptdl::cli
