#include "core/formats/yaml_json.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/base/number.h"
#include "core/formats/yaml_parse.h"

namespace adaptdl {
namespace {

// 0400, 0o400 and 0x100, with or without a minus; nothing if it is none of these or does not fit.
std::optional<Json> octal_or_hexadecimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.size() < 2 || text[0] != '0') return {};
  const int base = text[1] == 'x' ? 16 : 8;
  text.remove_prefix(text[1] == 'x' || text[1] == 'o' ? 2 : 1);
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stopped != end) return {};
  if (!negative) return value;
  if (value > uint64_t{1} << 63) return {};
  return static_cast<int64_t>(-value);
}

Json scalar_to_json(const YamlValue& value) {
  const std::string& text = value.text;
  if (value.quoted) return text;
  if (text.empty() || text == "null" || text == "Null" || text == "NULL" || text == "~") return {};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (value.line > 0) {  // an override is no YAML
    if (const auto number = octal_or_hexadecimal(text)) return *number;
    if (depends_on_yaml_version(text)) return text;
  }
  if (const auto number = try_parse<int64_t>(text)) return *number;
  if (const auto number = try_parse<uint64_t>(text)) return *number;
  // from_chars accepts inf and nan, which are text in YAML.
  const auto number = try_parse<double>(text);
  if (number && std::isfinite(*number) && text.find_first_of("0123456789") < 3) return *number;
  return text;
}

Json value_to_json(const YamlValue& value) {
  switch (value.kind) {
    case YamlValue::Kind::null:
      return {};
    case YamlValue::Kind::scalar:
      return scalar_to_json(value);
    case YamlValue::Kind::list: {
      Json list = Json::array();
      for (const auto& item : value.items) list.push_back(value_to_json(*item));
      return list;
    }
    case YamlValue::Kind::mapping:
      break;
  }
  Json object = Json::object();
  for (const auto& [key, member] : value.members) object[key] = value_to_json(*member);
  return object;
}

}  // namespace

struct YamlJson {
  static const YamlValue* value(const YamlNode& node) { return node.value_.get(); }
};

Json yaml_to_json(const YamlNode& node) {
  const YamlValue* value = YamlJson::value(node);
  return value == nullptr ? Json() : value_to_json(*value);
}

}  // namespace adaptdl
