#pragma once

#include <string>

#include <c10/core/Device.h>

namespace adaptdl {

// "cpu", or "cuda:0" for the GPU that the launcher left visible. Throws Error when LibTorch has no
// CUDA or finds no GPU.
at::Device open_device(const std::string& name);

}  // namespace adaptdl
