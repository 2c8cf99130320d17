#pragma once

// Parses text into the values that yaml.h reads. Uses yaml-cpp's events rather than its nodes,
// because it can then count the values of an alias before expanding it. Internal to core/formats.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/yaml.h"

namespace adaptdl {

struct YamlValue {
  enum class Kind { null, scalar, list, mapping };
  using Pointer = std::shared_ptr<YamlValue>;

  Kind kind = Kind::null;
  bool quoted = false;  // scalar: certainly text
  std::string text;     // scalar
  std::vector<Pointer> items;
  std::vector<std::pair<std::string, Pointer>> members;  // in the file's order, keys unique
  int line = 0;                                          // from 1
  std::string where;                                     // "FILE:LINE" or "--set KEY=VALUE"

  Pointer* find(std::string_view key) {
    for (auto& [name, value] : members) {
      if (name == key) return &value;
    }
    return nullptr;
  }
};

// Whether plain text is an integer whose leading zero makes it octal in YAML 1.1, as kubectl and
// Helm read it, and another number or none in YAML 1.2: 0400, -010, 09, but not 007.
bool depends_on_yaml_version(std::string_view text);

// One document without overrides. Places are "FILE:LINE", or FILE alone without `lines`.
YamlValue::Pointer parse_yaml_document(std::string_view text, const std::string& file, bool lines,
                                       YamlLimits limits);

}  // namespace adaptdl
