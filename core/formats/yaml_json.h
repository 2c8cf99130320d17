#pragma once

// YAML as JSON, for documents that are passed on rather than interpreted.

#include "core/formats/json.h"
#include "core/formats/yaml.h"

namespace adaptdl {

// Plain scalars that are null, ~, true, false or a number become that value; all others become text
// (YAML 1.2's core schema, decimal numbers only). Infinities and NaN stay text. A missing node and
// an empty value become null. Thread-safe.
Json yaml_to_json(const YamlNode& node);

}  // namespace adaptdl
