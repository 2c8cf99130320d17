#pragma once

// Wraps the loaders' buffers as tensors, on a CPU without a copy.

#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"

namespace adaptdl {

// One tensor per column, on `device`; the tensors keep the buffers alive. What a data set without
// columns has fetched must be a std::vector<at::Tensor>.
std::vector<at::Tensor> to_tensors(const data::Batch& batch, at::Device device);

// Registers the reader for data formats that need Torch (tensors written by torch.save).
void install_torch_reader();

}  // namespace adaptdl
