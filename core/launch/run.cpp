#include "core/launch/run.h"

#include <numeric>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/launch/hand_out.h"
#include "core/launch/launcher.h"
#include "core/launch/paths.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

RunOptions complete(RunOptions options) {
  check_run_name(options.name);
  ReplicaBounds& replicas = options.replicas;
  if (!options.replicas_at.empty() && options.replicas_at.front().first == 0) {
    replicas.initial = options.replicas_at.front().second;
    options.replicas_at.erase(options.replicas_at.begin());
  }
  if (replicas.min < 1 || replicas.initial < replicas.min || replicas.max < replicas.initial) {
    throw UsageError(fmt::format("replicas: {} to {}, starting with {}, cannot be", replicas.min,
                                 replicas.max, replicas.initial));
  }
  if (options.hosts) {
    options.slots = {0};
    options.slots_per_replica = 1;
    options.replicas = {1, 1, 1};
  }
  int most = replicas.max;
  for (const auto& [step, count] : options.replicas_at) most = std::max(most, count);
  if (options.slots.empty() && options.gpus > 0) {
    if (most > options.gpus) {
      throw UsageError(
          fmt::format("{} replicas wanted, each with a GPU; there are {}", most, options.gpus));
    }
    options.slots.resize(static_cast<size_t>(options.gpus));
    std::iota(options.slots.begin(), options.slots.end(), 0);
  }
  check_slots(options.slots, options.slots_per_replica, replicas.initial);
  const RunPaths paths = run_paths(options.name);
  const auto otherwise = [](std::string& path, const std::string& fallback) {
    if (path.empty()) path = fallback;
  };
  otherwise(options.control_socket, paths.socket);
  otherwise(options.record_file, paths.record);
  otherwise(options.checkpoint_dir, paths.checkpoint_dir);
  otherwise(options.log_dir, paths.log_dir);
  if (!path_exists(options.program)) fail("{}: no such file", options.program);
  return options;
}

int run_it(const RunOptions& options, Output& output, SignalCatcher& signals) {
  RunFolder folder(options);
  if (options.fresh) {
    folder.clear();
    if (!options.output_dir.empty()) remove_tree(join_path(options.output_dir, "model.pt"));
  }
  for (const std::string& change : folder.changes()) output.talk(change);
  if (folder.was_finished()) {
    const auto& last = folder.previous();
    // Whoever started this process looks for a record of this process, and the record file may be
    // older than the folder's, if a full disk kept it from being written.
    nlohmann::json again = last;
    again["pid"] = getpid();
    folder.update(again);
    nlohmann::json event = last;
    event.update({{"event", "end"}, {"time_s", 0.0}, {"exit_code", 0}, {"already", true}});
    output.event(std::move(event));
    output.talk(fmt::format("run {} has finished{}; --fresh starts over", options.name,
                            last.contains("changed") && last["changed"].is_string()
                                ? " (" + last["changed"].get<std::string>() + ")"
                                : ""));
    return 0;
  }
  if (!options.output_dir.empty()) make_directories(options.output_dir);
  return Launcher(options, folder, output, signals).run();
}

}  // namespace

int run(const RunOptions& options, const std::vector<EventSink>& sinks, const Talk& talk) {
  const RunOptions full = complete(options);
  Output output(sinks, talk);
  SignalCatcher signals(caught_signals());
  const int code = run_it(full, output, signals);
  hand_out(output, signals);
  return code;
}

}  // namespace adaptdl::launch
