#pragma once

// Which batch each generation trains with: the user's when it is fixed, the one of the best goodput
// when it is adaptive (Pollux, section 3).

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/job/hints.h"
#include "core/job/training_spec.h"
#include "runtime/profile/batch_chooser.h"
#include "runtime/profile/step_profile.h"
#include "runtime/session/progress.h"
#include "runtime/session/stepper.h"

namespace adaptdl {

class BatchPolicy {
 public:
  explicit BatchPolicy(const TrainingSpec& spec);

  // The user's total batch M0, shared out among replicas.
  BatchPlan initial(int replicas) const;

  // For a generation that begins.
  BatchPlan for_replicas(const Progress& progress, int nodes, int replicas);

  // For the next step of a running one: the present plan unless another is worth the change.
  BatchPlan next(const Progress& progress, int nodes, int replicas);

  // samples/s that the newest choice is predicted to give; 0 = not known.
  double predicted_goodput() const { return predicted_; }
  // Why it was made, for people. Where another replica made it, a general word.
  const std::string& cause() const { return cause_; }

  // Learns the step times.
  void begin_generation() { profile_.begin_generation(); }
  void observe(const StepFacts& facts, int nodes);

  // What a scheduler should know of the job; nothing before the first step was measured. Its end
  // and its rescales are not this object's matter. Fits the model: well below a millisecond.
  std::optional<SchedulingHints> hints(const Progress& progress) const;

  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  BatchKnowledge knowledge(const Progress& progress, int nodes, int replicas) const;

  BatchChooser chooser_;
  BatchSpec spec_;
  int64_t last_choice_ = 0;  // step
  double predicted_ = 0;
  std::string cause_ = "better predicted goodput";
  StepProfile profile_;
};

}  // namespace adaptdl
