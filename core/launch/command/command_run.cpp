#include "core/launch/command/command_run.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/json.h"
#include "core/launch/command/command_launcher.h"
#include "core/launch/io/run_report.h"
#include "core/launch/paths.h"
#include "core/launch/run/run_folder.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

RunIdentity identity_of(const CommandOptions& options) {
  RunIdentity identity;
  identity.name = options.name;
  identity.program = options.program;
  identity.arguments = options.arguments;
  identity.checkpoint_dir = options.checkpoint_dir;
  identity.log_dir = options.log_dir;
  identity.control_socket = options.control_socket;
  return identity;
}

// Of a folder's name checkpoint-N, N.
std::optional<int64_t> checkpoint_number(std::string_view name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return try_parse<int64_t>(name.substr(kPrefix.size()));
}

}  // namespace

int64_t newest_checkpoint(const std::string& folder) {
  int64_t newest = -1;
  std::vector<std::string> names;
  try {
    names = list_directory(folder);
  } catch (const Error&) {  // the program may remove its folder
    return newest;
  }
  for (const std::string& name : names) {
    newest = std::max(newest, checkpoint_number(name).value_or(-1));
  }
  return newest;
}

void start_fresh(const CommandOptions& options) {
  if (!options.fresh) return;
  for (const std::string& name : list_directory(options.checkpoint_dir)) {
    // The lock is that of a run on several hosts: RunFolder has it.
    if (name != "run.lock") remove_tree(join_path(options.checkpoint_dir, name));
  }
}

int run_command(const CommandOptions& options, const std::vector<EventSink>& sinks,
                const Talk& talk) {
  check_run_name(options.name);
  check_bounds(options.replicas);
  check_slots(options.slots, options.slots_per_replica, options.replicas.initial);
  if (options.gpus > 0) check_gpus(options.slots, options.gpus);
  std::optional<RunFolder> folder;  // its lock tells other hosts that they share it
  if (options.hosts) folder.emplace(options.name, options.checkpoint_dir, options.record_file);
  if (!options.supervisor_url.empty()) answers(options.supervisor_url);  // checks the URL
  make_directories(parent_directory(options.record_file), 0700);
  OutputQueue output(sinks, talk);
  std::vector<int> caught = caught_signals();
  caught.push_back(SIGQUIT);  // the terminal sends it to this process only
  SignalCatcher signals(caught);
  RunReport report(identity_of(options), output, [&](const nlohmann::json& record, bool last) {
    const std::string text = dump_json(record) + "\n";
    if (last) {
      write_file_atomic(options.record_file, text, 0600);
    } else {
      replace_file(options.record_file, text, 0600);
    }
  });
  if (options.hosts && options.hosts->announce) options.hosts->announce();
  std::optional<ReplicaConsole> console;
  if (options.console) console.emplace(*options.console);
  const int code = CommandLauncher(options, report, signals, console ? &*console : nullptr).run();
  if (console) console->drain(signals);
  output.drain(signals);
  return code;
}

}  // namespace adaptdl::launch
