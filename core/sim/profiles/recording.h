#pragma once

// From what `adaptdl run -o json` printed (adaptdl-events(5)) to a profile that simulations read.

#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// Collects the event streams of runs of one program, with other replicas and batches. One thread.
//
// Placements are the means over the steps of each (replicas, atomic batch), those right after a
// change of replicas left out, as they are slow once; what lies beyond the batches that were
// measured is estimated by the step-time model fitted to them (goodput/fit.h). Where each epoch
// ends, and the gradients' noise in it, come from the longest training that was recorded to its
// end; it may be in several streams, as when a run was stopped and went on. Shorter trainings add
// placements only. All replicas of a run count as on one node.
class Recording {
 public:
  // Takes in a stream; `path` is for messages. A last line that was cut short is left out. Throws
  // Error PATH:LINE for what is no stream of events, or one of another training: another initial
  // batch, other data.
  void add(std::istream& stream, const std::string& path);

  // Of the first run; "" before.
  const std::string& name() const { return name_; }
  int64_t steps() const { return steps_; }

  // The bounds are those of the settings, as the events have them. `validation` has rows for the
  // initial batch, its doubles, and the largest: progress and noise are the same in each, as they
  // do not depend on the batch, and iterations follow from them by AdaScale's gain (goodput.h).
  // Throws Error when nothing was added, or no training was recorded to its end.
  ProfileData profile(const std::string& application) const;

 private:
  struct Times {
    double step_s = 0, sync_s = 0;  // sums
    int64_t steps = 0;
  };
  struct Epoch {
    std::optional<double> end;  // progress at its end
    std::vector<double> noise;  // gradient noise scale of its steps, samples
  };
  using Epochs = std::map<int, Epoch>;  // by number, from 1
  struct Reader;                        // of one stream

  void take_bounds(const Json& event, const std::string& at);
  void take_times(const Json& event, const std::string& at);
  // The longest of which every epoch is there.
  const Epochs& whole_training() const;
  // A whole number, infinite where no step told its epoch.
  double epochs_in(double total_progress) const;

  std::string name_;
  int64_t steps_ = 0;
  int64_t initial_batch_ = 0, max_batch_ = 0;  // 0: not known yet
  std::optional<int64_t> atomic_min_, atomic_max_;
  double epoch_progress_ = 0;                       // D / M0; 0: not known yet
  std::map<std::pair<int, int64_t>, Times> times_;  // by replicas, atomic batch
  std::map<double, Epochs> trainings_;              // by the progress at their end
  std::vector<double> pauses_s_;
};

}  // namespace adaptdl
