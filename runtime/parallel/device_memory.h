#pragma once

// The location of tensors, for the communicator.

#include <memory>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "runtime/comm/device_memory.h"

namespace adaptdl {

inline comm::Memory memory_of(const at::Tensor& tensor) {
  return tensor.device().is_cpu() ? comm::Memory::host : comm::Memory::device;
}

// The group's device, using LibTorch's copies; null for the CPU.
std::unique_ptr<comm::DeviceMemory> device_memory(at::Device device);

}  // namespace adaptdl
