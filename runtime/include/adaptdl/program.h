#pragma once

// What is trained: a model that can turn a batch into a loss. A train.pt is one implementation, a
// program of one's own is another.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/named_tensor.h"

namespace adaptdl {

// All calls come from the training thread. What a method throws ends the run with its message.
//
// Replicas are kept the same by their parameters and buffers alone: a program that keeps other
// state from one step to the next (a counter, a cache of tensors) makes them drift apart after a
// rescale, and loses it when it goes on from a checkpoint. Random numbers from LibTorch's default
// generators are seeded in every step from the run's seed, the step and the replica's rank.
class Program {
 public:
  virtual ~Program() = default;

  // Leaves that require gradients, of a floating-point type, dense, on the device of
  // ProgramContext; at least one. In a fixed order, under unique names of 1 to 1000 bytes (the
  // settings' groups match them), none of them twice: see distinct(). The same tensors each time,
  // and the same names and shapes in every process of the run; the first values may differ, those
  // of rank 0 count. Borrowed, and changed in place by the optimizer.
  virtual std::vector<NamedTensor> parameters() = 0;

  // Tensors that training changes outside of gradients (running statistics), of any type; names and
  // order as above, may be empty. Before a validation, after a rescale and at the end they become
  // the replicas' mean (integers: the largest).
  virtual std::vector<NamedTensor> buffers() = 0;

  // The loss: one floating-point number with a gradient, the mean over the batch. `batch` holds one
  // tensor for each data column on the program's device, the samples along dimension 0: as many as
  // the atomic batch of the moment, fewer at the end of a pass. Parameters may be left out of a
  // step.
  virtual at::Tensor training_step(const std::vector<at::Tensor>& batch) = 0;

  virtual bool can_validate() const { return false; }
  // Sums over the batch, and "count", the samples in it; scalars, the same names in every call.
  // Called without gradients, after train(false).
  virtual std::map<std::string, at::Tensor> validation_step(const std::vector<at::Tensor>& batch);

  // Training or evaluation mode.
  virtual void train(bool on) = 0;

  // Writes what the user takes away; called on rank 0 at the end. Better write it under another
  // name and rename it.
  virtual void save(const std::string& path) = 0;
};

// The list without tensors that stand in it before under another name, as shared weights do.
std::vector<NamedTensor> distinct(const std::vector<NamedTensor>& tensors);

}  // namespace adaptdl
