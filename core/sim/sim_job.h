#pragma once

// A training job under the virtual clock: its progress with its GPUs, and what it measures of
// itself. Times and statistics come from a recorded profile; the fit and the choice of the batch
// are those of real training.
//
// The rules are those of the simulator published with Pollux (OSDI'21, section 5.3 and artifact):
// adaptdl-simulate(1) lists them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/goodput/fit.h"
#include "core/goodput/job_hints.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

class SimJob {
 public:
  // `fixed_batch`: the total batch that its user chose; 0 = adaptive. Borrows the profile.
  SimJob(const Profile& profile, int64_t fixed_batch);

  // `nodes`: the node of each replica, by rank; empty: no allocation. The job holds its GPUs from
  // now on, and makes progress after `rescale_s`. Additional replicas take part `start_s` later:
  // until then the job trains with its present replicas, if any, and then it rescales. Another
  // place() before that discards the new replicas. `kind`: of the accelerators, one of
  // profile.kinds(). On another kind, or if none of its nodes stays, all replicas start again.
  void place(const std::vector<int>& nodes, double rescale_s, double start_s = 0,
             const std::string& kind = "");

  // To other nodes with the same gpus_per_node(), at no cost. Discards replicas that are starting.
  void move(const std::vector<int>& nodes);

  // Advances by `seconds`. `interference`: the fraction of its speed lost to neighbours, in [0, 1).
  void advance(double seconds, double interference);

  bool finished() const { return epoch_ >= profile_->epochs(); }
  double finished_after() const { return clock_s_; }  // seconds advanced until then
  double attained_service() const { return attained_service_; }
  int epochs_finished() const { return epoch_; }
  double progress() const { return progress_; }
  double remaining_progress() const;
  int replicas() const { return replicas_; }  // that train
  bool rescaling() const { return rescale_left_s_ > 0; }
  // Of one node after another, in order of rank.
  const std::vector<int>& gpus_per_node() const { return gpus_per_node_; }
  const std::string& kind() const { return kind_; }
  const BatchChoice& batch() const { return batch_; }
  const Profile& profile() const { return *profile_; }

  // The job's hints for a scheduler; empty before it has trained. Without remaining_progress, costs
  // and speeds, which the caller adds.
  JobHints hints() const;

 private:
  struct Arrival {  // of replicas that are starting
    std::vector<int> nodes;
    std::string kind;
    double after_s = 0, rescale_s = 0;
  };
  struct Measured {  // on one kind
    std::vector<PerfObservation> observed;
    std::optional<PerfParams> perf;
  };
  void take(const std::vector<int>& nodes, const std::string& kind, double rescale_s);
  void train(double seconds, double interference);
  int held() const { return arrival_ ? static_cast<int>(arrival_->nodes.size()) : replicas_; }
  double total_batch() const;
  void observe(const StepTime& time);
  void choose_batch();

  const Profile* profile_;
  int64_t fixed_batch_;
  std::vector<int> nodes_, gpus_per_node_;  // of the replicas that train
  std::string kind_;
  int replicas_ = 0;
  std::optional<Arrival> arrival_;
  BatchChoice batch_;
  double clock_s_ = 0, rescale_left_s_ = 0, attained_service_ = 0;
  int epoch_ = 0;                             // finished
  double progress_ = 0;                       // scale-invariant iterations
  std::map<std::string, Measured> measured_;  // by kind
  int max_profiled_ = 0;
  std::optional<GradParams> grad_;
};

}  // namespace adaptdl
