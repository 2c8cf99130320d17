// What the service of the local cluster starts for each job, detached: it runs the job, and
// outlives the service, which finds it again by the job's folder.
//
// FOLDER (0700)
//   job.json     what to run (runner_job.h); written before
//   runner.json  {pid, start_time, boot_id, version, protocol}, as soon as this holds the lock
//   run.lock     locked (flock) by the live runner
//   control.sock requests (core/launch/client.h)
//   run.json     the run's record: state, reason, cause (of a failure), exit_code, step. The states
//                finished, failed, stopped and cancelled are there before this ends; any other
//                is of a live run, or of one that was killed
//   events.jsonl, events.jsonl.1  adaptdl-events(5); of the steps at most one a second
//   logs/        replica-*.log, and runner.log for what this says
//   checkpoints/ output/ share/   the job's
//   replicas.json                 of a command: which processes live, the newest NUM_RESTARTS
// ADAPTDL_SUPERVISOR_URL: the address of the supervisor, for programs that speak to one.
// Exit code: 0 finished, 143 stopped by SIGTERM (after a checkpoint; to be started again) or
// cancelled, 75 another runner has the folder, else failed.

#include <csignal>
#include <cstdlib>
#include <memory>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/parse.h"
#include "cli/run_setup.h"
#include "cli/runner_files.h"
#include "cli/runner_job.h"
#include "cli/tensorboard.h"
#include "cli/version.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/launch/client.h"

namespace adaptdl::cli {
namespace {

constexpr int kTaken = 75;            // EX_TEMPFAIL of sysexits.h
constexpr size_t kMaxJob = 8u << 20;  // above the longest submission
constexpr int64_t kMaxTalk = 1 << 20;

void write_runner_record(const std::string& folder) {
  const pid_t pid = getpid();
  const Json record = {{"pid", pid},
                       {"start_time", process_start_time(pid).value_or(0)},
                       {"boot_id", boot_id()},
                       {"version", version()},
                       {"protocol", launch::kControlProtocol}};
  replace_file(join_path(folder, "runner.json"), dump_json(record) + "\n", 0600);
}

// What ended it before the launcher had a record of its own.
void record_failure(const std::string& folder, const std::string& reason, int code) noexcept {
  try {
    const std::string path = join_path(folder, "run.json");
    Json record = Json::object();
    if (path_exists(path)) record = parse_json(read_file(path, kMaxJob), path);
    record.update({{"format", 1},
                   {"state", "failed"},
                   {"reason", reason},
                   {"cause", "CannotStart"},
                   {"exit_code", code},
                   {"pid", getpid()},
                   {"changed", rfc3339(std::chrono::system_clock::now())}});
    write_file_atomic(path, dump_json(record) + "\n", 0600);
  } catch (const std::exception&) {  // a full disk; the exit code says that it failed
  }
}

int run_training(const RunnerJob& job, const std::string& folder, const std::vector<int>& slots,
                 std::vector<launch::EventSink> sinks, const launch::Talk& talk) {
  launch::RunOptions options = training_options(job, folder, slots);
  if (!path_exists(options.program)) fail("{}: no such file", options.program);
  choose_trainer(
      job.kind == JobSpec::Kind::archive ? ProgramKind::archive : program_kind(options.program),
      options.program, options);
  for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!job.directory.empty() && chdir(job.directory.c_str()) != 0) {
    fail_errno(errno, job.directory + ": cannot go to this folder");
  }
  if (!job.tensorboard.empty()) {
    const auto charts = std::make_shared<TensorBoard>(job.tensorboard, job.name);
    sinks.push_back([charts](const Json& event) { charts->event(event); });
  }
  return launch::run(options, sinks, talk);
}

int run_job(const std::string& folder, const std::vector<int>& slots, const std::string& supervisor,
            const launch::Talk& talk) {
  const std::string path = join_path(folder, "job.json");
  const RunnerJob job = runner_job_from_json(parse_json(read_file(path, kMaxJob), path), path);
  const auto events = std::make_shared<EventFileSink>(join_path(folder, "events.jsonl"));
  const std::vector<launch::EventSink> sinks{[events](const Json& event) { events->event(event); }};
  if (job.kind != JobSpec::Kind::command) return run_training(job, folder, slots, sinks, talk);
  return launch::run_command(command_options(job, folder, slots, supervisor), sinks, talk);
}

int run(const Arguments& arguments) {
  const std::string folder = absolute_path(*arguments.positional("FOLDER"));
  const std::vector<int> slots = parse_slots(arguments.text("slots"));
  const std::optional<Fd> lock = lock_job_folder(folder);
  if (!lock) return kTaken;
  std::signal(SIGHUP, SIG_IGN);  // it belongs to no terminal
  write_runner_record(folder);
  for (const char* name : {"checkpoints", "output", "logs", "share"}) {
    make_directories(join_path(folder, name), 0700);
  }
  const auto said = std::make_shared<LineFile>(join_path(folder, "logs/runner.log"), kMaxTalk);
  const launch::Talk talk = [said](const std::string& line) {
    said->add(rfc3339(std::chrono::system_clock::now()) + " " + line);
  };
  const std::string supervisor = environment_variable("ADAPTDL_SUPERVISOR_URL").value_or("");
  unsetenv("ADAPTDL_SUPERVISOR_URL");  // it holds a token: for those alone who ask there
  try {
    return run_job(folder, slots, supervisor, talk);
  } catch (const Error& error) {
    talk(error.what());
    record_failure(folder, error.what(), static_cast<int>(error.exit_code()));
    throw;
  }
}

}  // namespace

Command runner_command() {
  return {.name = "__runner",
          .summary = "Run the job of a folder, for the service",
          .options = {{.name = "slots",
                       .kind = Kind::text,
                       .value = "N,...",
                       .doc = "Cores or GPUs, by number, that the job has.",
                       .variable = false}},
          .positionals = {{.name = "FOLDER", .kind = Kind::directory, .doc = "The job's folder."}},
          .hidden = true,
          .run = run};
}

}  // namespace adaptdl::cli
