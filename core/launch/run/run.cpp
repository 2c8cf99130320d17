#include "core/launch/run/run.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/launch/io/run_report.h"
#include "core/launch/paths.h"
#include "core/launch/run/launcher.h"
#include "core/launch/run/run_folder.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr Seconds kLockGlance{0.5};
constexpr Seconds kLockPatience{10};
constexpr Seconds kMirrorUntold{3};  // until the user is told what the start waits for

// `scratch`: a folder for what an evaluation needs until it ends, and for its logs.
RunOptions complete(RunOptions options, const std::string& scratch) {
  check_run_name(options.name);
  ReplicaBounds& replicas = options.replicas;
  if (!options.replicas_at.empty() && options.replicas_at.front().first == 0) {
    replicas.initial = options.replicas_at.front().second;
    options.replicas_at.erase(options.replicas_at.begin());
  }
  check_bounds(replicas);
  const auto number_slots = [&](int count) {
    options.slots.resize(static_cast<size_t>(count));
    std::iota(options.slots.begin(), options.slots.end(), 0);
  };
  if (options.hosts) {
    number_slots(options.hosts->slots);
    options.slots_per_replica = 1;
    const int here = std::max(1, options.hosts->slots);
    options.replicas = {1, std::max(1, here - options.spares), here};
  }
  int most = replicas.max;
  for (const auto& [step, count] : options.replicas_at) most = std::max(most, count);
  if (options.slots.empty() && options.gpus > 0) {
    number_slots(std::max(options.gpus, most + options.spares));
  }
  check_slots(options.slots, options.slots_per_replica, replicas.initial);
  const auto otherwise = [](std::string& path, const std::string& fallback) {
    if (path.empty()) path = fallback;
  };
  if (!path_exists(options.program)) fail("{}: no such file", options.program);
  if (options.evaluate) {
    otherwise(options.log_dir, join_path(scratch, "logs"));
    options.control_socket = join_path(scratch, "run.sock");
    return options;
  }
  const RunPaths paths = run_paths(options.name);
  otherwise(options.control_socket, paths.socket);
  otherwise(options.record_file, paths.record);
  otherwise(options.checkpoint_dir, paths.checkpoint_dir);
  otherwise(options.log_dir, paths.log_dir);
  return options;
}

RunIdentity identity_of(const RunOptions& options) {
  RunIdentity identity;
  identity.name = options.name;
  identity.program = options.program;
  identity.arguments = options.arguments;
  identity.settings = {options.settings, options.effective_settings};
  struct stat state {};
  if (options.effective_settings.empty() && ::stat(options.program.c_str(), &state) == 0) {
    identity.program_version = fmt::format("{} {}", state.st_size, state.st_mtim.tv_sec);
  }
  identity.checkpoint_dir = options.checkpoint_dir;
  identity.log_dir = options.log_dir;
  identity.output_dir = options.output_dir;
  identity.control_socket = options.control_socket;
  return identity;
}

// Gets what the mirror has before the first replica starts. The exit code if a signal ends that.
std::optional<int> restore(const RunOptions& options, CheckpointMirror& mirror, RunReport& report,
                           SignalCatcher& signals) {
  Cancellation over;
  std::exception_ptr problem;
  std::optional<int64_t> step;
  std::vector<std::string> sentences;
  std::thread getting([&] {
    try {
      if (options.fresh) {
        mirror.clear();
      } else {
        step =
            mirror.restore([&](std::string sentence) { sentences.push_back(std::move(sentence)); });
      }
    } catch (...) {
      problem = std::current_exception();
    }
    over.cancel();
  });
  std::optional<int> code;
  TimePoint silent_until =
      options.fresh ? TimePoint::max() : time_after(Monotonic::now(), kMirrorUntold);
  while (!over.cancelled()) {
    std::vector<pollfd> waits{{signals.fd(), POLLIN, 0}, {over.fd(), POLLIN, 0}};
    poll_until(waits, silent_until);
    if (Monotonic::now() >= silent_until && !over.cancelled()) {
      silent_until = TimePoint::max();
      report.talk(
          fmt::format("looking for the newest intact checkpoint in {} and {}, which is "
                      "read before the first replica starts; Ctrl-C ends that",
                      options.checkpoint_dir, mirror.place()));
    }
    for (const int number : signals.take()) {
      if (number == SIGCHLD) continue;
      code = 128 + number;
      mirror.cancel();
    }
  }
  getting.join();
  if (code) {
    report.talk("stopped before the first replica started");
    return code;
  }
  for (std::string& sentence : sentences) report.talk(std::move(sentence));
  if (problem) std::rethrow_exception(problem);
  if (step)
    report.talk(fmt::format("got the checkpoint of step {} from {}", *step, mirror.place()));
  return std::nullopt;
}

int run_it(const RunOptions& options, OutputQueue& output, SignalCatcher& signals) {
  // The lock of a launcher that is lost falls with its process, or when a file server notices.
  // Other hosts take it for a moment to see whether somebody leads.
  const Seconds patience = options.succeeds ? kLockPatience
                           : options.hosts  ? kLockGlance
                                            : Seconds(0);
  RunFolder folder(options.name, options.checkpoint_dir, options.record_file, patience);
  RunReport report(identity_of(options), output,
                   [&](const nlohmann::json& record, bool) { folder.write(record); });
  if (options.fresh) {
    folder.clear();
    for (const char* model : {"model.pt", "best.pt"}) {
      if (!options.output_dir.empty()) remove_tree(join_path(options.output_dir, model));
    }
  }
  for (const std::string& change : folder.changes(report.recorded())) report.talk(change);
  // Hosts that have not heard of the end hear it from who follows.
  if (folder.was_finished() && !options.succeeds && !folder.may_go_on(report.recorded())) {
    const auto& last = folder.previous();
    report.already_finished(last);
    report.talk(
        fmt::format("run {} has finished{}; raise its {}max_steps or max_time to go on, "
                    "or --fresh trains from scratch",
                    options.name,
                    last.contains("changed") && last["changed"].is_string()
                        ? " (" + last["changed"].get<std::string>() + ")"
                        : "",
                    // The loop of another program than an archive may have its own.
                    options.effective_settings.empty() ? "" : "epochs, "));
    return 0;
  }
  if (!options.output_dir.empty()) make_durable_directories(options.output_dir);
  if (options.hosts && options.hosts->announce) options.hosts->announce();
  std::optional<CheckpointMirror> mirror;
  if (options.mirror) {
    mirror.emplace(*options.mirror, options.name, options.checkpoint_dir);
    if (const auto code = restore(options, *mirror, report, signals)) return *code;
    mirror->start();
  }
  return Launcher(options, report, signals, mirror ? &*mirror : nullptr).run();
}

int evaluate(const RunOptions& options, OutputQueue& output, SignalCatcher& signals) {
  RunReport report(identity_of(options), output, [](const nlohmann::json&, bool) {});
  return Launcher(options, report, signals, nullptr).run();
}

}  // namespace

bool is_repeated(int signal, TimePoint first_at) {
  return signal == SIGTERM && seconds_since(first_at) <= 1;
}

std::vector<int> caught_signals() {
  std::vector<int> caught{SIGINT, SIGTERM, SIGCHLD};
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) caught.push_back(SIGHUP);  // under nohup it stays ignored
  return caught;
}

int run(const RunOptions& options, const std::vector<EventSink>& sinks, const Talk& talk) {
  std::optional<TemporaryDirectory> scratch;
  if (options.evaluate) scratch.emplace("adaptdl-evaluate");
  const RunOptions full = complete(options, scratch ? scratch->path() : "");
  OutputQueue output(sinks, talk);
  SignalCatcher signals(caught_signals());
  const int code =
      options.evaluate ? evaluate(full, output, signals) : run_it(full, output, signals);
  // The user was told of the logs there. Who ends an evaluation by a signal needs none.
  if (scratch && options.log_dir.empty() && code != 0 && code < 128) scratch->keep();
  output.drain(signals);
  return code;
}

}  // namespace adaptdl::launch
