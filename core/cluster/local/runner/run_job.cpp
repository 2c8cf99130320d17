#include "core/cluster/local/runner/run_job.h"

#include <csignal>
#include <cstdlib>
#include <memory>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/cluster/local/runner/launch_options.h"
#include "core/cluster/local/runner/line_file.h"
#include "core/cluster/local/runner/run_record.h"
#include "core/cluster/local/runner/runner_process.h"
#include "core/launch/run/run_tensorboard.h"
#include "core/launch/run/worker_choice.h"

namespace adaptdl::local {
namespace {

constexpr int64_t kMaxTalk = 1 << 20;

// They belong to the shell that started the service. A job has those of the shell that submitted
// it, or none.
constexpr const char* kShellVariables[] = {"CONDA_PREFIX", "LD_LIBRARY_PATH", "PYTHONPATH",
                                           "VIRTUAL_ENV"};

int run_training(const GrantedJob& job, const JobFolder& folder, const std::vector<int>& slots,
                 std::vector<launch::EventSink> sinks, const launch::Talk& talk) {
  launch::RunOptions options = training_options(job, folder, slots);
  if (!path_exists(options.program)) fail("{}: no such file", options.program);
  launch::choose_trainer(job.spec.kind == JobSpec::Kind::archive
                             ? launch::ProgramKind::archive
                             : launch::program_kind(options.program),
                         options.program, options);
  if (options.gpus > 0 && !options.worker_image.empty() &&
      launch::choose_gpus("auto", options.libtorch_dir) == 0) {
    talk("the worker or LibTorch does not support GPUs: the replicas train on the cores");
    options.gpus = 0;
    options.bound = false;  // the slots are no cores
  }
  for (const auto& [name, value] : job.spec.environment) setenv(name.c_str(), value.c_str(), 1);
  const std::string& directory = job.grant.directory;
  if (!directory.empty() && chdir(directory.c_str()) != 0) {
    fail_errno(errno, directory + ": cannot enter this folder");
  }
  std::shared_ptr<launch::TensorBoard> charts;
  if (!job.grant.tensorboard.empty()) {
    charts = launch::charts_if_possible(job.grant.tensorboard, job.grant.name, talk);
  }
  if (charts) sinks.push_back([charts](const Json& event) { charts->event(event); });
  const int code = launch::run(options, sinks, talk);
  if (charts && !charts->problem().empty()) talk(charts->problem());
  return code;
}

// The job would use others than the GPUs that it was granted, by their numbers.
void keep_granted_gpus(GrantedJob& job, const launch::Talk& talk) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) {
    if (job.spec.environment.erase(name) == 0) continue;
    talk(fmt::format("{} in the job's environment has no effect: the service chooses its GPUs",
                     name));
  }
}

int run_job(const JobFolder& folder, const std::vector<int>& slots, const std::string& supervisor,
            const launch::Talk& talk) {
  GrantedJob job = read_granted_job(folder);
  if (job.grant.on_gpus()) keep_granted_gpus(job, talk);
  const auto events = std::make_shared<EventFileSink>(folder.events_file());
  const std::vector<launch::EventSink> sinks{[events](const Json& event) { events->event(event); }};
  if (job.spec.kind != JobSpec::Kind::command) return run_training(job, folder, slots, sinks, talk);
  return launch::run_command(command_options(job, folder, slots, supervisor), sinks, talk);
}

int run_locked_folder(const JobFolder& folder, const std::vector<int>& slots) {
  std::signal(SIGHUP, SIG_IGN);  // a runner has no terminal
  record_runner(folder);
  for (const std::string& path :
       {folder.checkpoints(), folder.output(), folder.logs(), folder.share()}) {
    make_directories(path, 0700);
  }
  sync_job_folder(folder);  // before the job writes checkpoints there
  const auto said = std::make_shared<LineFile>(folder.runner_log(), kMaxTalk);
  const launch::Talk talk = [said](const std::string& line) {
    said->add(rfc3339(std::chrono::system_clock::now()) + " " + line);
  };
  const std::string supervisor = environment_variable("ADAPTDL_SUPERVISOR_URL").value_or("");
  unsetenv("ADAPTDL_SUPERVISOR_URL");  // it has a token; only clients of the supervisor get it
  // Here, and not before: this program may need them to find its own libraries.
  for (const char* name : kShellVariables) unsetenv(name);
  try {
    return run_job(folder, slots, supervisor, talk);
  } catch (const DiskFull& error) {  // no failure of the job
    talk(error.what());
    throw;
  } catch (const Error& error) {
    talk(error.what());
    record_failure(folder, error.what(), static_cast<int>(error.exit_code()));
    throw;
  }
}

}  // namespace

int run_job_folder(const JobFolder& folder, const std::vector<int>& slots) {
  try {
    const std::optional<Fd> lock = lock_job_folder(folder);
    if (!lock) return kRunnerTaken;
    return run_locked_folder(folder, slots);
  } catch (const DiskFull& error) {
    adaptdl::talk(std::string("adaptdl: ") + error.what());
    return kRunnerDiskFull;
  }
}

}  // namespace adaptdl::local
