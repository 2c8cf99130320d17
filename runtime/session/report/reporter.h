#pragma once

// Writes training events to the event stream (adaptdl-events(5)). Every replica has one, but only
// rank 0's events leave the process.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "runtime/session/prepared.h"
#include "runtime/session/session.h"

namespace adaptdl {

class Reporter {
 public:
  static constexpr size_t kRemembered = 4096;

  // `bounds`: of the settings, with all defaults filled in.
  Reporter(Session& session, double iterations_per_epoch, const BatchSpec& bounds);

  // Other ranks remember their last kRemembered steps.
  void step(const StepFacts& facts);
  // Called when a generation begins: a new rank 0 sends the steps that it remembers. The previous
  // one may have died before it sent them, or was cut off from the launcher and trained on; the
  // launcher drops those that it has seen.
  void repeat();

  // The batch or the number of replicas changes with the next step.
  void batch(const BatchPlan& plan, int replicas, double lr, double goodput,
             const std::string& cause);

  void epoch(int64_t epoch, int64_t step, double mean_loss);
  // `best`: it is the best so far; `problem`: why its model is not saved, or "".
  void validation(int64_t step, double epoch, const std::map<std::string, double>& metrics,
                  bool best, const std::string& problem);
  void scalar(int64_t step, const std::string& name, double value);  // of the program's own
  void resume(int64_t step, const std::string& path, const std::vector<std::string>& problems);
  void warm_start(const std::string& path, size_t tensors, const std::vector<std::string>& kept,
                  const std::vector<std::string>& skipped);
  void skipped(int64_t step, int64_t total, int in_a_row);
  // The state of `members` differed in `tensors` before this step.
  void diverged(int64_t step, const std::vector<uint64_t>& members,
                const std::vector<std::string>& tensors);

  // A generation began. The event's pause is the time from the end of the last step before it to
  // the end of its first step, minus the median of its next steps; the event is sent after those.
  // `transfer_s` and `bytes`: of the state's broadcast.
  void generation(double transfer_s, uint64_t bytes, bool had_state);
  // A step ended, `slowest_previous_s` after the one before it on the slowest replica.
  void step_ended(int64_t step, double slowest_previous_s);
  // Sends what generation() still waits for.
  void flush();

 private:
  struct Step {  // what its event tells
    int64_t step = 0;
    double iterations = 0, total_iterations = 0, loss = 0, samples = 0;
    int replicas = 1;
    BatchPlan batch;
    double lr = 0, gain = 1, efficiency = 1, noise_scale = 0;
    double step_s = 0, accum_s = 0, optim_s = 0, sync_s = 0;
    uint64_t generation = 0;
    bool skipped = false;
  };
  void send(const Step& step);

  Session& session_;
  double iterations_per_epoch_;
  BatchSpec bounds_;
  std::deque<Step> remembered_;
  uint64_t generation_ = 0;
  bool watching_ = false;  // a generation's first steps
  double transfer_s_ = 0;
  uint64_t bytes_ = 0;
  int64_t first_step_ = 0;
  std::vector<double> gaps_;  // slowest replica's step times; the first contains the pause
};

}  // namespace adaptdl
