#include "cli/commands/command_run.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <unistd.h>

#include "cli/commands/run_events.h"
#include "cli/commands/run_hosts.h"
#include "cli/frame/output.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/base/process.h"
#include "core/base/program_path.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/formats/json_fields.h"
#include "core/launch/client.h"
#include "core/launch/command/command_environment.h"
#include "core/launch/hosts/slurm.h"
#include "core/launch/paths.h"

namespace adaptdl::cli {
namespace {

constexpr int kNotFound = 127, kNotExecutable = 126;  // as shells
constexpr double kMostGrace = 1e6;                    // s
constexpr int64_t kMostLog = int64_t{1} << 30;        // of a replica, and as much of older text

// Of training archives only, and of commands only.
constexpr const char* kArchiveFlags[] = {
    "replicas-at",       "set",       "from",   "evaluate",
    "hang-timeout",      "output",    "links",  "step-events",
    "plain-links",       "no-nccl",   "spares", "deterministic",
    "interface",         "advertise", "ports",  "checkpoint-mirror",
    "replace-stragglers"};
constexpr const char* kCommandFlags[] = {"grace", "tee", "redirects", "local-ranks-filter", "role"};

// Variables that we set only if the user has not.
constexpr const char* kUsersVariables[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONUNBUFFERED",
                                           "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                                           "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"};

bool runs_scripts(const std::string& program) {
  const std::string name = file_name(program);
  return name.starts_with("python") || name.starts_with("pypy") || name == "sh" || name == "bash" ||
         name == "env";
}

// The interpreter that the program's first line names, if it does not exist; otherwise "".
std::string missing_interpreter(const std::string& path) {
  try {
    char bytes[256];
    const ssize_t n = ::read(open_file(path, O_RDONLY).get(), bytes, sizeof bytes);
    const std::string start(bytes, n > 0 ? static_cast<size_t>(n) : 0);
    if (!start.starts_with("#!")) return "";
    const size_t begin = start.find_first_not_of(" \t", 2);
    if (begin == std::string::npos) return "";
    const std::string name = start.substr(begin, start.find_first_of(" \t\r\n", begin) - begin);
    return name.empty() || path_exists(name) ? "" : name;
  } catch (const Error&) {
    return "";
  }
}

// 0, or the exit code after a message.
int refuse_program(const std::string& program) {
  const ProgramPath found = find_in_path(program, environment_variable("PATH").value_or(""));
  const std::string interpreter = found.executable ? missing_interpreter(found.path) : "";
  if (!interpreter.empty()) {
    talk(fmt::format("adaptdl: {}: {}, which its first line names, does not exist", found.path,
                     interpreter));
    return kNotExecutable;
  }
  if (found.executable) return 0;
  const bool script = program.ends_with(".py");
  const std::string hint =
      script ? fmt::format("; run it with its interpreter: python3 {}", program) : "";
  if (found.path.empty()) {
    const bool there = script && path_exists(program);
    talk(fmt::format(
        "adaptdl: {}: {}{}", program,
        program.find('/') == std::string::npos ? "not found in PATH" : "no such program",
        there ? hint : ""));
    return kNotFound;
  }
  talk(fmt::format("adaptdl: {}: not executable{}", found.path, hint));
  return kNotExecutable;
}

// Fails with advice if the run could not write its files.
void check_folders(const launch::CommandOptions& options) {
  const auto check = [](const std::string& folder, const char* flag) {
    try {
      make_durable_directories(folder, 0700);
      if (::access(folder.c_str(), W_OK | X_OK) != 0) fail_errno(errno, folder);
    } catch (const Error& error) {
      fail("{}; name a folder that you may write to with {}, or start the command in one",
           error.what(), flag);
    }
  };
  check(parent_directory(options.replicas_file), "--log-dir");
  check(options.log_dir, "--log-dir");
  check(options.checkpoint_dir, "--checkpoint-dir");
}

// The value of a variable of AdaptDL's contract; "" if it says nothing.
std::string told_by(const char* name) {
  return environment_variable(name).value_or("");
}

// A folder that the user, or the job of a pod, names by such a variable.
std::string folder_told_by(const char* name) {
  const std::string of_run = told_by(launch::kRunFolderVariable);
  const bool of_other_run = !of_run.empty() && of_run == told_by("ADAPTDL_CHECKPOINT_PATH");
  return of_other_run ? "" : told_by(name);
}

// In the pods of a job, or as a replica of another run, each replica starts a run of its own.
void check_surroundings(const launch::Talk& talk_to) {
  if (told_by("ADAPTDL_RESCALE") == "live") {
    fail(
        "in a job that rescales live only programs such as train.pt train together: remove "
        "liveRescale from the job, and let its pods start the command itself, without `adaptdl`");
  }
  const auto replicas = try_parse<int>(told_by("ADAPTDL_NUM_REPLICAS"));
  if (!replicas || *replicas < 2) return;
  talk_to(fmt::format(
      "this is one of {} replicas of {}, each of which runs the command by itself; to train "
      "together they have to start it without `adaptdl`",
      *replicas, told_by("ADAPTDL_JOB_ID").empty() ? "a job" : told_by("ADAPTDL_JOB_ID")));
}

// Whether the environment alone says where checkpoints go. They may be another run's, too.
bool inherits_checkpoints(const Arguments& arguments) {
  return !arguments.given("checkpoint-dir") && !folder_told_by("ADAPTDL_CHECKPOINT_PATH").empty();
}

// What --fresh removes; without it, says that a checkpoint of an earlier run is there.
void choose_fresh(const Arguments& arguments, launch::CommandOptions& options,
                  const launch::Talk& talk_to) {
  const bool own = !arguments.given("checkpoint-dir") && !inherits_checkpoints(arguments);
  options.fresh = arguments.flag("fresh");
  if (options.fresh && !own) {
    throw UsageError(fmt::format(
        "--fresh: not with {}, whose folder others may use; empty it yourself.",
        inherits_checkpoints(arguments) ? "ADAPTDL_CHECKPOINT_PATH" : "--checkpoint-dir"));
  }
  const int64_t newest = options.fresh ? -1 : launch::newest_checkpoint(options.checkpoint_dir);
  if (newest < 0) return;
  talk_to(fmt::format("goes on from checkpoint-{} of an earlier run ({}){}", newest,
                      options.checkpoint_dir, own ? "; --fresh begins anew" : ""));
}

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  if (text.empty()) return ranks;
  for (const std::string& part : split(text, ',')) {
    const auto rank = try_parse<int>(part);
    if (!rank || *rank < 0) {
      throw UsageError(
          fmt::format("--local-ranks-filter: {} is not a list of ranks such as 0,2.", text));
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

// What people are told of a run's events, after "adaptdl: "; "" for most.
std::string event_sentence(const Json& event, bool quiet) {
  const auto text = [&](const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string kind = text("event");
  if (kind == "end" && quiet) return text("reason");
  if (quiet) return "";
  if (kind == "failure" && !text("next").empty()) {
    return fmt::format("replica {}: {}; {}", event.value("member", Json(0)).dump(), text("reason"),
                       text("next"));
  }
  if (kind == "generation" && text("cause") != "start") {
    const int from = event.value("from", 0), to = event.value("to", 0);
    return from == to ? fmt::format("started {} replica{} again", to, to == 1 ? "" : "s")
                      : fmt::format("replicas {} -> {}", from, to);
  }
  if (kind == "end" && text("result") != "finished" && text("result") != "failed") {
    return text("result");
  }
  return "";
}

// Empty if this process could not write it.
Json record_of_this_run(const std::string& name) {
  try {
    Json record = launch::read_record(name);
    if (record.is_object() && record.value("pid", 0) == getpid()) return record;
  } catch (const Error&) {
    // the disk was full
  }
  return Json::object();
}

// Whether a command that was stopped, started again, goes on from where it was: it has written a
// checkpoint, or shown that it saves and exits with 143 when it is asked to stop.
bool goes_on(const Json& record) {
  return record.value("checkpoint", false) || record.value("restartable", false);
}

}  // namespace

void check_run_flags(const Arguments& arguments, bool command) {
  const auto refuse = [&](const auto& flags, const char* whose, const char* instead) {
    for (const char* flag : flags) {
      if (!arguments.given(flag)) continue;
      throw UsageError(fmt::format("--{}: only for {}; {}.", flag, whose, instead));
    }
  };
  if (command && arguments.given("hosts")) {
    throw UsageError(
        "--hosts: only for training archives; type a command on each host, with --nnodes and "
        "--rdzv-endpoint.");
  }
  if (command) {
    refuse(kArchiveFlags, "training archives", "give a command its arguments after --");
  } else {
    refuse(kCommandFlags, "commands", "give the command after --, without PROGRAM");
  }
}

std::string command_name(const std::vector<std::string>& words) {
  std::string title = file_stem(words.at(0));
  if (runs_scripts(words[0])) {
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "-m" && i + 1 < words.size()) {
        title = words[i + 1];
        break;
      }
      if (words[i].empty() || words[i][0] == '-') continue;
      if (words[i].ends_with(".py") || words[i].ends_with(".sh")) title = file_stem(words[i]);
      break;
    }
  }
  return valid_run_name(title);
}

std::string valid_run_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (name.empty() && !letter) continue;
    name += letter || c == '.' || c == '_' || c == '-' ? c : '-';
  }
  if (name.size() > 60) name.resize(60);
  return name.empty() ? "command" : name;
}

void set_command_folders(launch::CommandOptions& options, const std::string& base,
                         const std::string& log_dir, const std::string& checkpoint_dir) {
  options.directory = absolute_path(".");
  const auto folder = [&](const std::string& chosen, const char* otherwise) {
    return absolute_path(chosen.empty() ? join_path(base, otherwise) : chosen);
  };
  const std::string checkpoints_told = folder_told_by("ADAPTDL_CHECKPOINT_PATH");
  options.log_dir = folder(log_dir, "logs");
  options.log_bytes_max = kMostLog;
  options.checkpoint_dir =
      folder(checkpoint_dir.empty() ? checkpoints_told : checkpoint_dir, "checkpoints");
  options.share_dir = folder(folder_told_by("ADAPTDL_SHARE_PATH"), "share");
  if (options.tensorboard_dir.empty()) {
    options.tensorboard_dir = folder_told_by("ADAPTDL_TENSORBOARD_LOGDIR");
  }
  const launch::RunPaths paths = launch::run_paths(options.name);
  options.control_socket = paths.socket;
  options.record_file = paths.record;
  options.replicas_file = folder("", "replicas.json");
  for (const char* name : kUsersVariables) {
    if (const auto value = environment_variable(name)) options.environment[name] = *value;
  }
}

launch::ConsoleOptions console_options(const std::string& redirects, const std::string& tee,
                                       const std::string& only, bool prefix_all, bool json) {
  launch::ConsoleOptions options;
  const auto parsed = [](const std::string& text, const char* flag) {
    return text.empty() ? launch::StreamChoice() : launch::parse_streams(text, flag);
  };
  const launch::StreamChoice hidden = parsed(redirects, "--redirects");
  const launch::StreamChoice both = parsed(tee, "--tee");
  options.shown = [hidden, both](int rank, int stream) {
    return both.has(rank, stream) || !hidden.has(rank, stream);
  };
  options.prefixed = [both, prefix_all](int rank, int stream) {
    return prefix_all || both.has(rank, stream);
  };
  options.prefix_one = !prefix_all && !tee.empty();
  options.ranks = parse_ranks(only);
  if (const auto prefix = environment_variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")) {
    options.prefix = *prefix;
  }
  // Events are alone on standard output.
  if (json) options.out = STDERR_FILENO;
  return options;
}

launch::CommandOptions command_options(const Arguments& arguments) {
  check_run_flags(arguments, true);
  launch::CommandOptions options;
  const std::vector<std::string>& words = arguments.rest();
  options.name = arguments.given("name") ? arguments.text("name") : command_name(words);
  launch::check_run_name(options.name);
  options.program = words[0];
  options.arguments.assign(words.begin() + 1, words.end());
  const int gpu_count = static_cast<int>(gpus().size());
  const std::string device = arguments.text("device");
  options.replicas = launch::parse_replicas(
      arguments.text("replicas"), device != "cpu" && gpu_count > 0 ? gpu_count : available_cores());
  if (device == "cpu") options.environment["CUDA_VISIBLE_DEVICES"] = "";
  if (device == "gpu") {
    if (gpu_count == 0) fail("--device gpu: no NVIDIA GPU found (see `adaptdl doctor`)");
    options.gpus = gpu_count;
    for (int gpu = 0; gpu < gpu_count; ++gpu) options.slots.push_back(gpu);
  }
  options.threads = static_cast<int>(arguments.integer("threads"));
  options.max_failures = static_cast<int>(arguments.integer("max-restarts"));
  options.grace_s = arguments.seconds("grace", 0, kMostGrace);
  options.role = arguments.text("role");
  const std::string charts = arguments.text("tensorboard");
  if (!charts.empty()) options.tensorboard_dir = absolute_path(charts);
  options.console = console_options(arguments.text("redirects"), arguments.text("tee"),
                                    arguments.text("local-ranks-filter"), true, arguments.json());
  set_command_folders(options, options.name + ".run", arguments.text("log-dir"),
                      arguments.text("checkpoint-dir"));
  return options;
}

int run_as_command(const Arguments& arguments, launch::CommandOptions options, bool hosts) {
  raise_descriptor_limit();  // each replica needs some
  const launch::SlurmNotice slurm;
  const bool quiet = arguments.quiet();
  const launch::Talk talk_to = [quiet](const std::string& line) {
    if (!quiet) talk("adaptdl: " + printable(line));
  };
  if (const int code = refuse_program(options.program)) return code;
  check_surroundings(talk_to);
  check_folders(options);
  options.program_exit = true;
  options.console->role = options.role;
  const auto stream = std::make_shared<JsonStream>(1);
  const auto broken = std::make_shared<std::atomic<bool>>(false);  // standard output
  options.console->broken = [broken] { *broken = true; };
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  std::vector<launch::EventSink> sinks;
  sinks.push_back([quiet, failed](const Json& event) {
    if (event.value("event", "") == "end") *failed = event.value("result", "") == "failed";
    const std::string sentence = event_sentence(event, quiet);
    if (!sentence.empty()) talk("adaptdl: " + printable(sentence));
  });
  if (arguments.json()) {
    sinks.push_back([stream](const Json& event) { stream->event(event); });
  }
  if (arguments.verbose()) {
    talk(fmt::format("adaptdl: run {}: checkpoints in {}, logs in {}", options.name,
                     options.checkpoint_dir, options.log_dir));
  }
  launch::RunOptions shared;
  std::optional<HostOfRun> host;
  if (hosts) host = host_of_command(arguments, options, shared, talk_to);
  const auto exit_code = [&](int code) {
    const bool unwritten = stream->broken() || *broken;
    return code == 0 && unwritten ? static_cast<int>(ExitCode::error) : code;
  };
  if (host && !host->leads) return exit_code(run_host(*host, shared, &options, talk_to));
  choose_fresh(arguments, options, talk_to);
  const int code = launch::run_command(options, sinks, talk_to);
  tell_end(host, code, talk_to);
  const Json record = record_of_this_run(options.name);
  if (code == static_cast<int>(ExitCode::terminated) && goes_on(record)) {
    slurm.requeue_job(true, talk_to);
  }
  if (*failed && text_at(record, "cause") != "CannotStart" && !quiet) {
    talk(fmt::format("adaptdl: all that the replicas wrote is in {}", options.log_dir));
  }
  return exit_code(code);
}

}  // namespace adaptdl::cli
