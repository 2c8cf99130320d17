#pragma once

// Element types of columns, of tensors and in files of tensors.

#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

#include "runtime/data/dtype.h"

namespace adaptdl {

// Throws Error for types that exist in files only.
at::ScalarType scalar_type(data::DType type);

// Throws Error with `path` if columns do not support this type.
data::DType data_type(at::ScalarType type, const std::string& path);

// The type's name in checkpoints and files of weights, "float32"; "" if these do not support it.
std::string_view dtype_name(at::ScalarType type);
// The type of such a name; nothing if there is none.
std::optional<at::ScalarType> type_named(std::string_view dtype);

}  // namespace adaptdl
