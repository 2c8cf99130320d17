#pragma once

// The formats of a printed record: json, yaml (a document), and jsonpath=TEMPLATE
// (core/formats/json_path.h).

#include <string_view>

#include "core/formats/json.h"

namespace adaptdl::cli {

// A choice of Kind::choice: accepts every value with this prefix.
inline constexpr std::string_view kJsonPathFormat = "jsonpath=";

bool is_record_format(std::string_view format);

// Prints to standard output. Requires: is_record_format(format). Throws UsageError for an invalid
// template.
void print_record(const Json& value, std::string_view format);

}  // namespace adaptdl::cli
