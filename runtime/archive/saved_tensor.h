#pragma once

// Reads tensors written by torch.save (since PyTorch 1.6: a ZIP file with a pickle and the
// elements).

#include <string>

#include "runtime/data/dataset.h"

namespace adaptdl {

// The tensor in the file or, if the file holds a dictionary, its entry `key`. The elements are
// mapped, or copied if they are not contiguous. Throws Error if the file has another format, is
// damaged, or promises more elements than it holds.
data::Array read_saved_tensor(const std::string& path, const std::string& key);

}  // namespace adaptdl
