#pragma once

// What doctor says of GPUs.

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/doctor_checks.h"
#include "core/base/nvml.h"
#include "core/launch/run/libtorch.h"

namespace adaptdl::cli {

struct GpuFacts {
  std::vector<std::string> visible;    // gpus() of core/base/system.h
  std::optional<std::string> allowed;  // CUDA_VISIBLE_DEVICES
  // What the driver says; with `problem`, why it says nothing.
  std::vector<Gpu> all;
  std::vector<std::pair<size_t, size_t>> links;  // pairs of `all` that NVLink joins
  std::string driver;
  int cuda = 0;  // Nvml::cuda()
  std::string problem;
  std::string nccl;  // the version that pip has installed with `torch`; "" if it has none
};
// This machine's. Asks the driver only if there is a GPU. `torch`: the LibTorch that trains here;
// null: there is none.
GpuFacts find_gpus(const launch::LibTorch* torch);

// `torch` as above. Pure.
Finding gpu_finding(const GpuFacts& facts, const launch::LibTorch* torch);

}  // namespace adaptdl::cli
