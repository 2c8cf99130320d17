#pragma once

// The formats in which a record is printed for programs: json, yaml (a document), and
// jsonpath=TEMPLATE (core/formats/json_path.h).

#include <string_view>

#include "core/formats/json.h"

namespace adaptdl::cli {

// A choice of Kind::choice; whatever begins so is taken.
inline constexpr std::string_view kJsonPathFormat = "jsonpath=";

bool is_record_format(std::string_view format);

// To standard output. Requires: is_record_format(format). Throws UsageError for a template that
// cannot be read.
void print_record(const Json& value, std::string_view format);

}  // namespace adaptdl::cli
