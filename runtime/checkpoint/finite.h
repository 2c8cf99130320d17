#pragma once

// Torch-free.

#include <cstddef>
#include <span>
#include <string_view>

namespace adaptdl {

// Whether all numbers in `bytes`, whole elements of `dtype` (checkpoint_dtype_bytes), are finite;
// true for integers and bool. As fast as memory. Thread-safe.
bool all_finite(std::string_view dtype, std::span<const std::byte> bytes);

}  // namespace adaptdl
