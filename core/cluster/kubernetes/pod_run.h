#pragma once

// `adaptdl run` in the pods of a job that rescales live (adaptdl-job(5)): one pod runs the
// launcher, each of the others an agent. Where the launcher is lost, an agent starts another one
// (core/launch/hosts/successor.h).

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/formats/json.h"
#include "core/launch/hosts/successor.h"
#include "core/launch/run/run.h"

namespace adaptdl::kubernetes {

// The environment that the operator sets in such a pod.
struct PodRun {
  std::string supervisor_url;  // includes the job's token
  std::string authorities;     // PEM: whom its certificate must come from; "": it speaks HTTP
  std::string job;             // NAMESPACE/NAME
  std::string token;
  std::string link_key;  // never sent; of an operator that has none, the token
  int64_t group = 0;
  int rank = 0;       // of the pod, constant for its life; rank 0 runs the first launcher
  uint16_t port = 0;  // of a launcher, in each pod
};

// Reads the environment; nothing outside of such a pod. Throws Error for an incomplete environment.
std::optional<PodRun> pod_run();

// Sets the pod's folders and the job's name, except for flags that the user gave.
using Given = std::function<bool(const char* flag)>;
void set_pod_options(const PodRun& pod, const Given& given, launch::RunOptions& options);

// The folder of the job's TensorBoard instance; "" if it has none.
std::string pod_tensorboard_folder();

// After set_pod_options(): this process leads in place of `lost`, beside the agent of this pod.
void set_successor_options(launch::Successor lost, launch::RunOptions& options);

// Sends the job's hints to the scheduler, with the run's progress as `trainMetrics`. Thread-safe.
class HintPoster {
 public:
  HintPoster(const PodRun& pod, launch::Talk talk);
  ~HintPoster();  // drops unsent hints
  void post(const Json& hints);
  void event(const Json& event);  // of the run, as they come
  void lead();  // tells from now on, again and again, that this pod leads in place of a lost one

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs the agent to its end; returns the exit code.
int run_pod_agent(const PodRun& pod, const launch::RunOptions& options, const launch::Talk& talk);

}  // namespace adaptdl::kubernetes
