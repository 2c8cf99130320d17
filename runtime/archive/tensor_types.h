#pragma once

// Element types of columns and of tensors.

#include <string>

#include <c10/core/ScalarType.h>

#include "runtime/data/dtype.h"

namespace adaptdl {

// Throws Error for types that exist in files only.
at::ScalarType scalar_type(data::DType type);

// Throws Error with `path` if columns do not support this type.
data::DType data_type(at::ScalarType type, const std::string& path);

}  // namespace adaptdl
