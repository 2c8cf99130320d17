#pragma once

// The location of tensors, for the communicator.

#include <memory>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "runtime/comm/device.h"

namespace adaptdl {

inline comm::Memory memory_of(const at::Tensor& tensor) {
  return tensor.device().is_cpu() ? comm::Memory::host : comm::Memory::device;
}

// The group's device, by LibTorch's copies and streams; null for the CPU.
std::unique_ptr<comm::Device> torch_device(at::Device device);

}  // namespace adaptdl
