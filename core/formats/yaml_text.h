#pragma once

#include <string>

#include "core/formats/json.h"

namespace adaptdl {

// The value as YAML in block style, keys sorted, ending with a newline; null members are left out
// of mappings unless `nulls`. Reads back as the same value. Control characters are escaped, for
// terminals.
std::string yaml_text(const Json& given, bool nulls = true);

}  // namespace adaptdl
