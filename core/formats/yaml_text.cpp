#include "core/formats/yaml_text.h"

#include <algorithm>

#include "core/base/number.h"
#include "core/base/text.h"

namespace adaptdl {
namespace {

// Whether YAML reads the unquoted text as the same text.
bool is_plain(const std::string& text) {
  if (text.empty() || text.find(": ") != std::string::npos || text.back() == ':' ||
      text.find(" #") != std::string::npos || text.front() == ' ' || text.back() == ' ') {
    return false;
  }
  static constexpr std::string_view kStarts = "-?:,[]{}#&*!|>'\"%@`~=<.+";
  if (kStarts.find(text.front()) != std::string_view::npos || try_parse<double>(text)) return false;
  const std::string lower = lower_case(text);
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (lower == word) return false;
  }
  return (text.front() < '0' || text.front() > '9') &&  // dates, octal numbers, and the like
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

// A JSON string is a double-quoted YAML scalar.
std::string scalar(const Json& value) {
  if (value.is_string() && is_plain(value.get<std::string>())) return value.get<std::string>();
  return printable_json(value);
}

bool is_block(const Json& value) {
  return (value.is_object() || value.is_array()) && !value.empty();
}

void write(const Json& value, size_t indent, std::string& text) {
  const std::string blanks(indent, ' ');
  if (value.is_array()) {
    for (const Json& item : value) {
      text += blanks + "-";
      if (is_block(item)) {
        std::string block;
        write(item, indent + 2, block);
        text += " " + block.substr(indent + 2);  // its first line follows the dash
      } else {
        text += " " + scalar(item) + "\n";
      }
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    text += blanks + scalar(key) + ":";
    if (is_block(item)) {
      text += "\n";
      write(item, indent + 2, text);
    } else {
      text += " " + scalar(item) + "\n";
    }
  }
}

// Removes null members, and mappings that have only null members.
Json without_nulls(const Json& value) {
  if (!value.is_object()) return value;
  Json result = Json::object();
  for (const auto& [key, item] : value.items()) {
    Json kept = without_nulls(item);
    if (!item.is_null() && (item.empty() || !kept.empty())) result[key] = std::move(kept);
  }
  return result;
}

}  // namespace

std::string yaml_text(const Json& given, bool nulls) {
  const Json value = nulls ? given : without_nulls(given);
  std::string text;
  if (is_block(value)) {
    write(value, 0, text);
  } else {
    text = scalar(value) + "\n";
  }
  return text;
}

}  // namespace adaptdl
