#pragma once

// Everything that makes two replicas the same, and that a checkpoint holds: tensors, Progress and
// the small states of schedule, optimizer, batch policy and checkpointer.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "adaptdl/program.h"
#include "runtime/optim/schedule.h"
#include "runtime/session/batch_policy.h"
#include "runtime/session/checkpointer.h"
#include "runtime/session/progress.h"

namespace adaptdl {

// For the training thread. Borrows its arguments.
class TrainingState {
 public:
  TrainingState(Program& program, const TrainingSpec& spec, Optimizer& optimizer,
                Schedule& schedule, BatchPolicy& batch_policy, Checkpointer& checkpointer);

  // Parameters and optimizer state.
  std::vector<NamedTensor> trained_tensors() const;
  // These, loaded_frozen, and buffers: the program's, or others in their place.
  std::vector<NamedTensor> tensors() const { return tensors(program_.buffers()); }
  std::vector<NamedTensor> tensors(const std::vector<NamedTensor>& buffers) const;

  // All but the tensors. restore() makes this the state of another replica of the run, to the last
  // bit; resume() that of a checkpoint, whose run may have had other settings: what these do not
  // share begins anew. Both also create the optimizer's tensors, empty where the summary is of a
  // run whose optimizer had none, and throw Error if summary() did not write `summary`. resume()
  // returns what to tell the user of a progress that was counted in other units; "": it was not.
  nlohmann::json summary() const;
  void restore(const nlohmann::json& summary);
  std::string resume(const nlohmann::json& summary);

  Progress progress;
  // When --fresh began this training: milliseconds since 1970. 0: nothing but its first start did.
  int64_t fresh_at = 0;
  int64_t last_epoch = -1;  // after which a program's finish() ends training; -1: it was not called
  // Names of the program's frozen tensors that are those of a file, no longer the program's own:
  // part of the state, though they do not change.
  std::vector<std::string> loaded_frozen;
  std::string frozen_digest;  // fingerprint() of all frozen tensors; "": none, or no checkpoints

 private:
  std::string convert_units(const nlohmann::json& summary);
  Program& program_;
  const TrainingSpec& spec_;
  Optimizer& optimizer_;
  Schedule& schedule_;
  BatchPolicy& batch_policy_;
  Checkpointer& checkpointer_;
};

}  // namespace adaptdl
