#pragma once

// Which tensor of a file of weights becomes which tensor of a model, by their names. Pure.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/job/training_spec.h"
#include "core/job/weights_file.h"

namespace adaptdl {

struct ModelTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
};

struct WeightMatch {
  std::vector<std::pair<size_t, size_t>> pairs;  // (index of the model's, index of the file's)
  std::vector<std::string> kept;    // of the model, not in the file or of another shape
  std::vector<std::string> unused;  // of the file, by their new names
};

// The name after the first rule OLD=NEW that matches. OLD matches the whole name; both have one *,
// which stands for the same text, or none.
std::string renamed(const std::string& name, const std::vector<std::string>& rules);

// What is wrong with such a rule; "" if nothing.
std::string problem_of_rename(const std::string& rule);

// Numbers with a fraction may become numbers with a fraction of another precision; other types must
// be the same. Frozen parameters of the file that the model lacks need no match. Throws Error,
// which lists them, if tensors do not match that `from.ignore` does not name, or if none does.
WeightMatch match_weights(const std::vector<ModelTensor>& model, const WeightsFile& file,
                          const FromSpec& from);

}  // namespace adaptdl
