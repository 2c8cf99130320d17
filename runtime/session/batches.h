#pragma once

// Data as tensors: the loaders' buffers without a copy.

#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"

namespace adaptdl {

// One tensor for each column, on `device`; the buffers stay alive with the tensors.
std::vector<at::Tensor> to_tensors(const data::Batch& batch, at::Device device);

// Makes the data formats that need Torch (tensors written by torch.save) readable.
void install_torch_reader();

}  // namespace adaptdl
