#pragma once

// Data of a program's own whose samples can be had by number.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/program_data.h"

namespace adaptdl {

// Samples that can be had in any order. The library calls get() and collate() without autograd on
// as many threads as the settings' data.prefetch_threads says, ahead of training; with 0 on the
// training thread. All replicas must see the same samples. An exception counts as the death of this
// replica; the run ends with its message if another fails in the same step.
class MapDataset : public ProgramDataset {
 public:
  virtual int64_t size() const = 0;  // >= 1, always the same

  // The tensors of a sample, on the CPU: one or more, as many for each. Requires: 0 <= index <
  // size().
  virtual std::vector<at::Tensor> get(int64_t index) const = 0;
};

// A data set of torch::data that gives Examples, such as torch::data::datasets::MNIST, also with
// transforms (MNIST(...).map(...), without Stack): each sample is its data and its target. Reading
// it must be safe for several threads.
template <typename TorchDataset>
std::shared_ptr<const MapDataset> map_dataset(TorchDataset dataset) {
  class Adapted : public MapDataset {
   public:
    explicit Adapted(TorchDataset inner) : inner_(std::move(inner)) {}
    int64_t size() const override { return static_cast<int64_t>(*inner_.size()); }
    std::vector<at::Tensor> get(int64_t index) const override {
      const auto number = static_cast<size_t>(index);
      if constexpr (requires { inner_.get(number); }) {
        auto example = inner_.get(number);
        return {std::move(example.data), std::move(example.target)};
      } else {
        auto examples = inner_.get_batch({number});
        return {std::move(examples.front().data), std::move(examples.front().target)};
      }
    }

   private:
    mutable TorchDataset inner_;  // get() is not const there
  };
  return std::make_shared<Adapted>(std::move(dataset));
}

}  // namespace adaptdl
