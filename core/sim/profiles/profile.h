#pragma once

// The measurements of one application for simulating its jobs: how long its steps take, by kind of
// accelerator, and how it converges, on any placement and batch. The format and the rules follow
// the data published with Pollux (OSDI'21, section 5.3) and Sia (SOSP'23); profile_files.h reads
// them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/goodput/goodput.h"
#include "core/sim/profiles/step_times.h"

namespace adaptdl {

// A complete training at one total batch: its state at the end of each epoch.
struct ValidationRun {
  struct Row {
    double progress = 0;    // scale-invariant iterations
    double iterations = 0;  // optimizer steps
    GradParams grad;
  };
  int64_t batch = 0;
  std::vector<Row> epochs;
};

// The input of a profile. Missing optional values are derived from the measurements. The
// measurements of its own are those on accelerators of any kind; if there are none, the job runs on
// the kinds in `kinds` only.
struct ProfileData : Measurements {
  std::string application;
  std::map<std::string, Measurements> kinds;  // by accelerator kind
  std::vector<ValidationRun> runs;            // one for each total batch, as many epochs in each
  std::optional<int64_t> initial_batch;       // M0; default: the smallest batch of `runs`
  std::optional<int64_t> max_batch;           // M_max; default: the largest
  std::optional<int> max_replicas;            // on any kind; default: the most that were measured
  std::optional<int64_t> fixed_batch;         // total; for a job that cannot adapt its batch
  std::optional<double> rescale_s;            // cost of a change of the allocation, >= 0
  std::optional<double> start_s;  // until new replicas take part, >= 0; none: in rescale_s
  // What schedulers are told of rescale_s; default: the truth. Sia's simulator tells other costs.
  std::optional<double> told_rescale_s;
  // Whether the last part of an epoch is rounded to whole seconds, as by the simulator published
  // with Pollux. With short epochs such a job would end at once.
  bool whole_seconds = true;
};

// Immutable; any number of threads may use one object.
class Profile {
 public:
  // Throws Error "APPLICATION: ..." for inconsistent measurements: see StepTimes; runs with
  // different numbers of epochs, progress that does not grow, inconsistent bounds.
  explicit Profile(ProfileData data);

  const std::string& application() const { return application_; }
  int epochs() const { return static_cast<int>(epoch_ends_.size()); }

  // Whether the job runs on that kind of accelerator.
  bool runs_on(const std::string& kind) const { return find(kind) != nullptr; }
  // The step times there. Requires: runs_on(kind).
  const StepTimes& times(const std::string& kind = "") const;
  // The kinds that were measured; "": of any kind.
  std::vector<std::string> kinds() const;
  // The one of them whose measurements count there. Requires: runs_on(kind).
  std::string measured_kind(const std::string& kind) const;

  // With the atomic bounds of that kind; accumulation is allowed. Requires: runs_on(kind).
  BatchBounds batch(const std::string& kind = "") const;
  int64_t initial_batch() const { return initial_batch_; }
  int64_t max_batch() const { return max_batch_; }
  // The most replicas that were given, else measured on any kind, and that its atomic_min samples
  // on each replica allow; >= 1.
  int max_replicas() const { return max_replicas_; }
  const std::optional<int64_t>& fixed_batch() const { return fixed_batch_; }
  // Seconds without progress after a change of the allocation, if that was measured.
  const std::optional<double>& rescale_s() const { return rescale_s_; }
  const std::optional<double>& told_rescale_s() const { return told_rescale_s_; }
  const std::optional<double>& start_s() const { return start_s_; }
  bool whole_seconds() const { return whole_seconds_; }

  // The gradient statistics after that many epochs at a total batch: linear between the two
  // neighbouring runs, beyond them the nearest. Requires: 0 <= epoch < epochs(), total_batch > 0.
  // O(log runs).
  GradParams grad(int epochs_finished, double total_batch) const;

  // Optimizer steps from the start to the end of that epoch, all at this batch. As above.
  double iterations(int epoch, double total_batch) const;

  // Scale-invariant iterations at which the epoch (from 0) ends: the smallest of all runs, because
  // progress does not depend on the batch. The job ends with its last epoch.
  double progress_at_end(int epoch) const { return epoch_ends_.at(static_cast<size_t>(epoch)); }

 private:
  const StepTimes* find(const std::string& kind) const;
  void take_runs(std::vector<ValidationRun> runs);
  void take_times(const ProfileData& data);
  void take_bounds(const ProfileData& data);
  // Calls f(run below, run above, weight of the one above).
  template <typename F>
  auto between_runs(double total_batch, F&& f) const;

  std::string application_;
  std::map<std::string, StepTimes> times_;  // by kind; "": any
  std::vector<ValidationRun> runs_;         // sorted by batch, never empty
  std::vector<double> epoch_ends_;
  int64_t initial_batch_ = 1, max_batch_ = 1;
  int max_replicas_ = 1;
  std::optional<int64_t> fixed_batch_;
  std::optional<double> rescale_s_, told_rescale_s_, start_s_;
  bool whole_seconds_ = true;
};

}  // namespace adaptdl
