#pragma once

// YAML as JSON, for documents that are passed on rather than read.

#include "core/formats/json.h"
#include "core/formats/yaml.h"

namespace adaptdl {

// Plain scalars that are null, ~, true, false or a number become that, all others text (YAML 1.2's
// core schema, in decimal). Numbers that are infinite or no number stay text. A missing node, and
// an empty value, is null. Thread-safe.
Json yaml_to_json(const YamlNode& node);

}  // namespace adaptdl
