#pragma once

// The job that a runner runs, as the service wrote it into the job's folder.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/job/job_spec.h"
#include "core/launch/command_run.h"
#include "core/launch/run.h"

namespace adaptdl::cli {

// FOLDER/job.json. Paths are absolute, but for `program`, which may be relative to `directory` (a
// command's without a slash is searched in PATH).
struct RunnerJob {
  std::string name, job_namespace = "default";
  JobSpec::Kind kind = JobSpec::Kind::command;
  std::string program;
  std::vector<std::string> arguments;
  std::string directory;
  std::vector<std::string> settings;
  std::map<std::string, std::string> environment;
  int min_replicas = 1, max_replicas = launch::kMaxReplicas;
  bool on_gpus = false;  // slots are GPUs, else cores
  bool bound = true;     // cores are a replica's own; false: slots are numbers only
  int slots_per_replica = 1;
  std::string tensorboard;  // folder; "" = none
  double grace_s = 30, hang_timeout_s = 300;
  int retries = 3;
};

// Unknown keys are passed over, missing ones and null take the defaults above. Throws Error
// "WHERE: ...", also for a newer format.
RunnerJob runner_job_from_json(const Json& json, const std::string& where);

// What the launcher needs: all paths below `folder`, replicas as the slots allow. Throws UsageError
// when there are too few for one. For a job of kind command; for the others the program's worker
// is still to be chosen (choose_trainer).
launch::CommandOptions command_options(const RunnerJob& job, const std::string& folder,
                                       const std::vector<int>& slots,
                                       const std::string& supervisor);
launch::RunOptions training_options(const RunnerJob& job, const std::string& folder,
                                    const std::vector<int>& slots);

// "0,3": a list of numbers, all different. Throws UsageError.
std::vector<int> parse_slots(const std::string& text);

}  // namespace adaptdl::cli
