#pragma once

#include <string>

#include <c10/core/Device.h>

namespace adaptdl {

// `name`: "cpu", or "cuda:0" for the GPU that the launcher made visible. Throws Error if LibTorch
// has no CUDA or finds no GPU.
at::Device open_device(const std::string& name);

}  // namespace adaptdl
