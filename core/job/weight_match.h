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
  // A parameter must be in the file. A buffer need not: Python leaves those that are not persistent
  // out of a state_dict, and a model in TorchScript does not tell which these are. Nor need what is
  // frozen.
  enum class Kind { parameter, buffer, frozen };
  std::string name, dtype;
  std::vector<int64_t> shape;
  Kind kind = Kind::parameter;
};

struct WeightMatch {
  std::vector<std::pair<size_t, size_t>> pairs;  // (index of the model's, index of the file's)
  // Of the model, not in the file or of another shape; frozen ones only if of another shape.
  std::vector<std::string> kept;
  std::vector<std::string> unused;  // of the file, by their new names
};

// The name after the first rule OLD=NEW that matches. OLD matches the whole name; both have one *,
// which stands for the same text, or none.
std::string renamed(const std::string& name, const std::vector<std::string>& rules);

// What is wrong with such a rule; "" if nothing.
std::string problem_of_rename(const std::string& rule);

// Numbers with a fraction may become numbers with a fraction of another precision; other types must
// be the same. Frozen parameters of the file that the model lacks need no match, nor do buffers and
// frozen tensors of the model that the file lacks. Throws Error, which lists them, if other tensors
// do not match that `from.ignore` does not name, or if none does.
WeightMatch match_weights(const std::vector<ModelTensor>& model, const WeightsFile& file,
                          const FromSpec& from);

}  // namespace adaptdl
