#pragma once

// YAML as JSON, for documents that are passed on rather than interpreted.

#include "core/formats/json.h"
#include "core/formats/yaml.h"

namespace adaptdl {

// Plain scalars that are null, ~, true, false or a number become that value; all others become text
// (YAML 1.2's core schema). As for kubectl and Helm, 0400 is octal; 0o400 and 0x100 are numbers,
// 089 is text. Infinities and NaN stay text, and numbers of overrides are decimal. A missing node
// and an empty value become null. Thread-safe.
Json yaml_to_json(const YamlNode& node);

}  // namespace adaptdl
