#pragma once

// The interface of a model that the runtime can train: it computes a loss from a batch.
// Implemented by train.pt archives and by users' programs.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/named_tensor.h"
#include "adaptdl/optimizer.h"
#include "adaptdl/program_data.h"
#include "adaptdl/version.h"

namespace adaptdl {

// The training thread makes all calls. An exception from a method ends the run with its message.
//
// The runtime synchronises only parameters, buffers and state(). If a program keeps anything else
// between steps (a counter, a cache of tensors), replicas diverge after a rescale and it is lost on
// a resume from a checkpoint. In every step the runtime seeds LibTorch's default random generators
// from the run's seed, the step and the replica's rank. With the setting `deterministic` it calls
// training_step() once for each shard of a step, each time with the buffers from before the step,
// and seeds by the shard.
class Program {
 public:
  virtual ~Program() = default;

  // At least one dense floating-point leaf that requires a gradient, on the device of
  // ProgramContext. The order is fixed; names are unique and have 1 to 1000 bytes (the settings'
  // groups match them); no tensor occurs twice (see distinct()). Every call returns the same
  // tensors, and all processes of the run return the same names and shapes. Initial values may
  // differ: those of rank 0 are used. Borrowed; the optimizer changes them in place.
  virtual std::vector<NamedTensor> parameters() = 0;

  // Tensors that training changes without gradients (running statistics), of any type; names and
  // order as above; may be empty. Before a validation, after a rescale and at the end, the runtime
  // sets them to the mean over the replicas (integers: to the maximum).
  virtual std::vector<NamedTensor> buffers() = 0;

  // Tensors of the model that training never changes: frozen parameters and constants, of any type;
  // names as of parameters; every call returns the same dense tensors. The setting `from` loads
  // those that are in its file; replicas and checkpoints then get them, too. A run that goes on
  // warns if they are no longer those of its checkpoint. Of others the runtime knows nothing: they
  // must be the same in all processes. Nothing by default.
  virtual std::vector<NamedTensor> frozen() { return {}; }

  // The loss: one floating-point number with a gradient, the mean over the batch. `batch` holds one
  // tensor per data column on the program's device, with samples along dimension 0: the current
  // atomic batch size; at the end of a pass fewer, or 3 where that size is 2. A single sample comes
  // only if the size is 1, or if the step has no other. A step need not use all parameters, and
  // gradients may be sparse.
  virtual at::Tensor training_step(const std::vector<at::Tensor>& batch) = 0;

  // Data of the program's own, and what it does to each sample. Called once, before training.
  virtual ProgramData data() { return {}; }

  virtual bool can_validate() const { return false; }
  // Returns scalars: sums over the batch, and "count", its number of samples; the same names in
  // every call. Called with gradients disabled, after train(false).
  virtual std::map<std::string, at::Tensor> validation_step(const std::vector<at::Tensor>& batch);

  // The optimizer of a group, if the settings say `optimizer: {kind: program, ...}`: called once
  // for each before training. Null by default: there is none.
  virtual std::unique_ptr<UpdateRule> update_rule(const OptimizerGroup& group);

  // A scaling rule of the program's own, in place of the optimizer's, where the settings have no
  // `rule`: the factor, finite and > 0, by which the learning rate of a group is multiplied in a
  // step, beside the schedule. Must depend on nothing else: all replicas compute it. Nothing by
  // default: there is none.
  virtual std::optional<double> lr_factor(const BatchScale& at);

  // Training or evaluation mode.
  virtual void train(bool on) = 0;

  // What the program keeps between steps beside tensors, as bytes: equal on all replicas, at most a
  // few megabytes. state() is called before each step and for each checkpoint; load_state() with
  // what it returned then, when this replica joins others, goes on from a checkpoint, or undoes a
  // step. Empty: there is none.
  virtual std::string state() { return {}; }
  virtual void load_state(const std::string& /*bytes*/) {}

  // Writes the trained model into the new file `path`; called on rank 0 at the end. `path` is a
  // temporary name: adaptdl renames the file to the wanted one once it is on disk.
  virtual void save(const std::string& path) = 0;
};

// The list without repeated tensors (shared weights); each keeps its first name.
std::vector<NamedTensor> distinct(const std::vector<NamedTensor>& tensors);

}  // namespace adaptdl
