#pragma once

// Tensors that torch.save wrote (from PyTorch 1.6 on: a ZIP file of a pickle and the elements).

#include <string>

#include "runtime/data/dataset.h"

namespace adaptdl {

// The tensor in the file, or, if that holds a dictionary, its entry `key`. Its elements stay in the
// file, mapped, unless they are not contiguous; then they are copied. Throws Error with a sentence
// when the file is no such thing, is damaged, or promises more elements than it holds.
data::Array read_saved_tensor(const std::string& path, const std::string& key);

}  // namespace adaptdl
