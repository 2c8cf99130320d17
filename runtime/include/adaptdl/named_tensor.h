#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace adaptdl {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace adaptdl
