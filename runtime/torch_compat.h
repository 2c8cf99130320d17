#pragma once

// The LibTorch headers that the runtime uses, and all workarounds for differences between the
// supported LibTorch versions (2.6 and later). Precompiled (runtime/meson.build).

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#define ADAPTDL_DEVICE_ALLOCATOR (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11)
#if ADAPTDL_DEVICE_ALLOCATOR
#include <c10/core/CachingDeviceAllocator.h>
#endif

static_assert(TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6),
              "LibTorch 2.6 or later is needed");

namespace adaptdl {

// The node that collects a leaf's gradient: a shared_ptr, an intrusive_ptr from 2.15 on.
using GradAccumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

// Has LibTorch give back what it keeps of a device's memory for later tensors, if less than `room`
// bytes are free for others there. Before 2.11, only its CUDA library can.
inline void free_unused([[maybe_unused]] at::Device device, [[maybe_unused]] size_t room) {
#if ADAPTDL_DEVICE_ALLOCATOR
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  try {
    if (allocator && allocator->getMemoryInfo(device.index()).first < room) allocator->emptyCache();
  } catch (const c10::Error&) {  // who needs the memory tells
  }
#endif
}

}  // namespace adaptdl
