#pragma once

// Checkpoints for tests, whose content follows from their step.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/checkpoint/store.h"

namespace adaptdl::test {

struct Sample {
  explicit Sample(int64_t step, size_t weights = 3000) : weights_(weights), steps_(1, step) {
    for (size_t i = 0; i < weights; ++i) {
      weights_[i] = static_cast<float>(step) + static_cast<float>(i);
    }
    header.job = "sample";
    header.step = step;
    header.generation = 7;
    header.settings = {{"epochs", 3}, {"lr", 0.1}};
    header.state = {{"progress", 12.5}, {"step", step}};
  }

  std::vector<TensorView> tensors() const {
    const auto rows = static_cast<int64_t>(weights_.size() / 3);
    return {
        {"layer.weight", "float32", {rows, 3}, std::as_bytes(std::span(weights_).first(rows * 3))},
        {"empty", "float32", {0, 5}, {}},
        {"layer.steps", "int64", {}, std::as_bytes(std::span(steps_))}};
  }

  // Whether this is what was written for its own step, byte for byte.
  static bool matches(const LoadedCheckpoint& loaded, size_t weights = 3000) {
    const Sample sample(loaded.header.step, weights);
    const auto wanted = sample.tensors();
    if (loaded.tensors.size() != wanted.size()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const TensorView& got = loaded.tensors[i];
      if (got.name != wanted[i].name || got.dtype != wanted[i].dtype ||
          got.shape != wanted[i].shape || got.bytes.size() != wanted[i].bytes.size()) {
        return false;
      }
      if (!got.bytes.empty() &&
          std::memcmp(got.bytes.data(), wanted[i].bytes.data(), got.bytes.size()) != 0) {
        return false;
      }
    }
    return loaded.header.state == sample.header.state;
  }

  CheckpointHeader header;

 private:
  std::vector<float> weights_;
  std::vector<int64_t> steps_;
};

}  // namespace adaptdl::test
