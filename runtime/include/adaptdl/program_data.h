#pragma once

// Data that a program reads itself, where the settings' readers do not fit, and what it does to
// each sample.

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace adaptdl {

// Changes a sample before it becomes part of a batch: decodes it, augments it. Returns its tensors,
// one or more, as many for each sample.
//
// Whatever is drawn must come from `random`, which is valid during the call: at::rand({2}, random).
// It is seeded for this sample in this pass over the data, from the settings' `seed`, so that the
// draw is the same for any number of replicas and threads, and when a step or a run is repeated.
// (LibTorch's default generator belongs to the training thread.) In a validation the seed depends
// on the sample alone: each validation draws the same.
//
// Called without autograd on data.prefetch_threads threads at once, ahead of training. An exception
// counts as the death of this replica; the run ends with its message if another fails in the same
// step.
using Transform =
    std::function<std::vector<at::Tensor>(std::vector<at::Tensor> sample, at::Generator& random)>;

// What MapDataset and StreamDataset have in common. Derive from one of these.
class ProgramDataset {
 public:
  virtual ~ProgramDataset() = default;

  // Makes a batch of one sample or more, after the transform. Its tensors have the samples along
  // dimension 0. By default stacks the first tensors, the second ones, and so on, which need equal
  // shapes. Several threads call it at once.
  virtual std::vector<at::Tensor> collate(std::vector<std::vector<at::Tensor>> samples) const;

 protected:
  ProgramDataset() = default;
  ProgramDataset(const ProgramDataset&) = default;
  ProgramDataset& operator=(const ProgramDataset&) = default;
};

// What a program brings. All of it is optional.
struct ProgramData {
  // In place of the settings' data.train, which must not be there. Without `validation`, the
  // settings' data.validation_fraction of a MapDataset is kept for it.
  std::shared_ptr<const ProgramDataset> train, validation;
  // Of these data, or of the settings'. Samples that are kept for validation are not training
  // samples. None: as they are read.
  Transform transform, transform_validation;
};

}  // namespace adaptdl
