#pragma once

// What is trained: a model that can turn a batch into a loss. train.pt is one implementation
// (archive/script_program.h); a program of one's own is another.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/optim/optimizer.h"

namespace adaptdl {

// All calls come from the training thread.
class Program {
 public:
  virtual ~Program() = default;

  // Leaves that require gradients, in a fixed order with unique names; the same tensors each time.
  virtual std::vector<NamedTensor> parameters() = 0;

  // Tensors that training changes outside of gradients (running statistics), likewise.
  virtual std::vector<NamedTensor> buffers() = 0;

  // The loss: a scalar with a gradient, the mean over the batch. `batch` holds one tensor for each
  // data column, the samples along dimension 0.
  virtual at::Tensor training_step(const std::vector<at::Tensor>& batch) = 0;

  virtual bool can_validate() const { return false; }
  // Sums over the batch, and "count", the samples in it; scalars.
  virtual std::map<std::string, at::Tensor> validation_step(const std::vector<at::Tensor>& batch);

  // Training or evaluation mode.
  virtual void train(bool on) = 0;

  // Writes what the user takes away.
  virtual void save(const std::string& path) = 0;
};

}  // namespace adaptdl
