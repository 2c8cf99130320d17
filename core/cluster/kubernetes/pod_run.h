#pragma once

// `adaptdl run` in the pods of a job that rescales live (adaptdl-job(5)): one pod has the launcher,
// each of the others an agent.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/formats/json.h"
#include "core/launch/run/run.h"

namespace adaptdl::kubernetes {

// What the operator tells such a pod.
struct PodRun {
  std::string supervisor_url;  // with the job's token
  std::string job;             // NAMESPACE/NAME
  std::string token;
  int64_t group = 0;
  int rank = 0;  // of the pod, for its life; 0 has the launcher
  uint16_t port = 0;
};

// Nothing elsewhere. Throws Error for an environment that only looks like one.
std::optional<PodRun> pod_run();

// Folders that a pod has, and the name of the job; what was chosen stays.
using Given = std::function<bool(const char* flag)>;
void set_pod_options(const PodRun& pod, const Given& given, launch::RunOptions& options);

// Sends the scheduler what the job knows of itself. Thread-safe.
class HintPoster {
 public:
  HintPoster(const PodRun& pod, launch::Talk talk);
  ~HintPoster();  // what has not been sent is not
  void post(const Json& hints);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// To the end; the exit code.
int run_pod_agent(const PodRun& pod, const launch::RunOptions& options, const launch::Talk& talk);

}  // namespace adaptdl::kubernetes
