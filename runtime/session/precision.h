#pragma once

// The precision in which a program's forward passes run: LibTorch's autocast. Parameters, gradients
// and the optimizer's state stay as the program made them.

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "core/job/training_spec.h"

namespace adaptdl {

// As in adaptdl.yaml.
std::string name_of(TrainingSpec::Precision precision);

// Enables autocast on this thread while it exists; nothing for fp32.
class Autocast {
 public:
  Autocast(at::Device device, TrainingSpec::Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool on_, previous_ = false;
  at::ScalarType previous_type_ = at::kFloat;
};

// With fp16, the loss is multiplied by this factor before the backward pass, and gradients are
// divided by it, so that small ones do not become zero. It is halved by a step whose gradients
// overflow, which is skipped, and doubled after 2000 steps without one.
// Source: Micikevicius et al., Mixed Precision Training (ICLR 2018); numbers as torch.amp's
// GradScaler.
struct LossScale {
  double factor = 1;  // a power of 2, 1 to 2^24
  int64_t steps = 0;  // since it changed

  static LossScale first(TrainingSpec::Precision precision);
  // After a step; nothing changes for fp32 and bf16.
  LossScale after(TrainingSpec::Precision precision, bool finite) const;
};

}  // namespace adaptdl
