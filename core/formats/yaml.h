#pragma once

// Strict reading of YAML written by people. Every problem is an Error
//   FILE:LINE: FIELD: what is wrong; what is allowed
// with FIELD a dotted path such as data.train.0.path. Rejected: aliases that expand to too much,
// tags, duplicate keys, keys that are not text, several documents, and unknown keys.
//
//   const YamlNode root = parse_yaml(text, "adaptdl.yaml", {"optimizer.lr=0.1"});
//   YamlMapping top(root);
//   top.read("epochs", spec.epochs, above(0));                 // optional: keeps the default
//   top.read("seed", spec.seed, 0, 1000);
//   top.read_choice("precision", spec.precision, {{"fp32", Precision::fp32}, ...});
//   for (const YamlNode& item : top.require("data").list()) ...
//   top.finish();                                              // refuses keys not asked for
//
// Values are immutable after parsing; nodes may be copied and outlive the root. A YamlMapping
// belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace adaptdl {

struct YamlLimits {
  size_t max_bytes = 1u << 20;
  size_t max_nodes = 20'000;  // after expanding aliases; duplicate keys cost its square
  int max_depth = 32;
};

// What numbers are allowed: at_least(0), above(0), between(0, 1), from_to_below(0, 1).
struct NumberBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false, high_excluded = false;
};
inline NumberBounds at_least(double low) {
  return {.low = low};
}
inline NumberBounds above(double low) {
  return {.low = low, .low_excluded = true};
}
inline NumberBounds between(double low, double high) {
  return {.low = low, .high = high};
}
inline NumberBounds from_to_below(double low, double high) {
  return {.low = low, .high = high, .high_excluded = true};
}

struct YamlValue;  // yaml.cpp

// One value of the document, with its place. Also represents a missing key: then present() is false
// and every read throws an Error that says so.
class YamlNode {
 public:
  YamlNode() = default;
  YamlNode(std::shared_ptr<const YamlValue> value, std::string path, std::string where)
      : value_(std::move(value)), path_(std::move(path)), where_(std::move(where)) {}

  bool present() const { return value_ != nullptr; }
  bool is_scalar() const;
  bool is_list() const;
  bool is_mapping() const;

  std::string text() const;  // any non-empty scalar; empty text must be quoted: ""
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const;  // 3, -3, not 3.0, 010
  double number(NumberBounds bounds = {}) const;                              // finite
  bool boolean() const;                                                       // true, false
  // Index of the text among `names`; the Error lists them and suggests the nearest.
  size_t choice(const std::vector<std::string>& names) const;
  std::vector<YamlNode> list(size_t min_items = 0,
                             size_t max_items = std::numeric_limits<size_t>::max()) const;

  const std::string& path() const { return path_; }  // "" for the root
  int line() const;                                  // from 1; 0 for an override
  std::string place() const;                         // "FILE:LINE: PATH", the beginning of Errors

  // Throws the Error for this place. `problem` = "what is wrong; what is allowed".
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  friend class YamlMapping;
  friend struct YamlJson;  // yaml_json.cpp
  const YamlValue& scalar(const char* expected) const;
  [[noreturn]] void wrong(const std::string& expected) const;
  // Refuses a number that others read as another one. Overrides are no YAML.
  void check_zero(const YamlValue& value, const std::string& expected) const;
  std::string describe() const;

  std::shared_ptr<const YamlValue> value_;
  std::string path_;
  std::string where_;  // file and line of the value, or of the mapping that lacks it
};

// Reads a mapping key by key and remembers which keys were read. An absent node, and an empty value
// (`data:` alone), read as an empty mapping if `optional`.
class YamlMapping {
 public:
  explicit YamlMapping(const YamlNode& node, bool optional = false);

  const YamlNode& node() const { return node_; }
  YamlNode find(std::string_view key);     // may not be present()
  YamlNode require(std::string_view key);  // throws Error if missing
  std::vector<std::string> keys() const;   // in the file's order; does not mark them as read

  // Each leaves `value` alone and returns false when the key is missing.
  bool read(std::string_view key, std::string& value);
  bool read(std::string_view key, bool& value);
  bool read(std::string_view key, double& value, NumberBounds bounds = {});
  template <typename Integer>
  requires(std::is_integral_v<Integer> &&
           !std::is_same_v<Integer, bool>) bool read(std::string_view key, Integer& value,
                                                     int64_t low, int64_t high) {
    const YamlNode found = find(key);
    if (found.present()) value = static_cast<Integer>(found.integer(low, high));
    return found.present();
  }
  template <typename Enum>
  bool read_choice(std::string_view key, Enum& value,
                   const std::vector<std::pair<std::string, Enum>>& choices) {
    const YamlNode found = find(key);
    if (!found.present()) return false;
    std::vector<std::string> names;
    for (const auto& choice : choices) names.push_back(choice.first);
    value = choices[found.choice(names)].second;
    return true;
  }

  // Throws an Error for the first key that was not read; it lists the known keys.
  void finish() const;

 private:
  YamlNode node_;
  std::vector<std::string> asked_;
};

// Parses one document; empty text is an empty mapping. `overrides` ("a.b.0.c=value") are applied in
// order: they replace or add a key, replace a list's item, or append to a list by the index one
// past its end; missing mappings on the way are created. A value that begins with [ { " or ' is
// parsed as YAML; any other is literal text.
YamlNode parse_yaml(std::string_view text, const std::string& file,
                    const std::vector<std::string>& overrides = {}, YamlLimits limits = {});

}  // namespace adaptdl
