#pragma once

#include <string>

#include <c10/core/Device.h>

#include "runtime/checkpoint/snapshot_buffer.h"

namespace adaptdl {

// `name`: "cpu", or "cuda:0" for the GPU that the launcher made visible. Throws Error if LibTorch
// has no CUDA or finds no GPU.
at::Device open_device(const std::string& name);

// The kind of accelerator that this process trains on: as the scheduler calls it
// (kAcceleratorVariable), else the GPU's name by the CUDA driver, or the model of the processor. ""
// if none is known.
std::string accelerator_kind(const at::Device& device);

// The same for all processes that use this GPU, or this part of one, and for no other: as the CUDA
// driver tells, such as "GPU-6fe1d0f5-..." (Nvml::find() knows parts by it, too). "" if it does
// not, and for the CPU.
std::string gpu_id(const at::Device& device);

// By the CUDA driver, for a thread that has used the GPU; nothing for the CPU.
SnapshotBuffer::Pinning pinning(const at::Device& device);

}  // namespace adaptdl
