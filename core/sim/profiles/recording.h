#pragma once

// Converts the output of `adaptdl run -o json` (adaptdl-events(5)) into a profile for simulations.

#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// Collects the event streams of runs of one program, with different replicas and batches. One
// thread.
//
// A placement is the mean over the steps of a pair (replicas, atomic batch), without the slow steps
// right after a change of replicas. Batches outside the measured range are estimated by the
// step-time model fitted to the measurements (goodput/fit.h). The ends of the epochs, and the
// gradients' noise in them, come from the longest complete training. It may be in several streams,
// if a run was stopped and continued, and may have ended early, even within an epoch. Shorter
// trainings add only placements. All replicas of a run count as on one node. Times are kept by the
// kind of accelerator that the run's generations name. Starts are timed from the run's first event
// to its first step.
class Recording {
 public:
  // Adds a stream; `path` is for messages. Ignores an incomplete last line. Throws Error PATH:LINE
  // if the input is not a stream of events, or belongs to another training: another initial batch,
  // other data.
  void add(std::istream& stream, const std::string& path);

  // Of the first run; "" before.
  const std::string& name() const { return name_; }
  int64_t steps() const { return steps_; }
  // The kinds of accelerators on which steps were timed, as far as the runs name them; sorted.
  std::vector<std::string> kinds() const;

  // Times on one kind of accelerators, or on none that is named, count for all kinds; times on
  // several are in `kinds`. The bounds are those of the settings, as in the events. `validation`
  // has rows for the initial batch, its doubles, and the largest. Progress and noise are the same
  // in each, because they do not depend on the batch; iterations follow from them by AdaScale's
  // gain (goodput.h). Throws Error if nothing was added, or no complete training was recorded.
  ProfileData profile(const std::string& application) const;

 private:
  struct Times {
    double step_s = 0, sync_s = 0;  // sums
    int64_t steps = 0;
  };
  using TimesByPlacement = std::map<std::pair<int, int64_t>, Times>;  // replicas, atomic batch
  struct Epoch {
    std::optional<double> end;  // progress at its end
    std::vector<double> noise;  // gradient noise scale of its steps, samples
    bool partial = false;       // the training ended within it
  };
  using Epochs = std::map<int, Epoch>;  // by number, from 1
  struct Reader;                        // of one stream

  void take_bounds(const Json& event, const std::string& at);
  void take_times(const Json& event, const std::string& kind, const std::string& at);
  // Empty if there are too few steps.
  Measurements measurements(const TimesByPlacement& of_kind) const;
  // The longest training with all its epochs.
  const Epochs& whole_training() const;
  // A whole number; infinite if no step had an epoch.
  double epochs_in(double total_progress) const;

  std::string name_;
  int64_t steps_ = 0;
  int64_t initial_batch_ = 0, max_batch_ = 0;  // 0: not known yet
  std::optional<int64_t> atomic_min_, atomic_max_;
  double epoch_progress_ = 0;                      // D / M0; 0: not known yet
  std::map<std::string, TimesByPlacement> times_;  // by kind of accelerator; "": not named
  // By the number of their epochs. Not by the progress at their end: the last step may go beyond
  // what the others expected.
  std::map<double, Epochs> trainings_;
  std::map<std::string, Epochs> runs_;  // by name: the training in progress, or the last one
  std::vector<double> pauses_s_, starts_s_;
};

}  // namespace adaptdl
