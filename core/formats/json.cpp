#include "core/formats/json.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/formats/json_brackets.h"

namespace adaptdl {

namespace {

std::string place(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = 1 + before.size() - (start == std::string_view::npos ? 0 : start + 1);
  return fmt::format("line {}, column {}", line, column);
}

// The parser is not recursive, but printing and comparing its result is. Of invalid JSON only the
// valid beginning matters, because the parser stops there.
void check_depth(std::string_view text, std::string_view what, int max_depth) {
  int depth = 0;
  for_each_bracket(
      text,
      [&](size_t at) {
        if (++depth > max_depth) {
          fail("{}: {}: nested more than {} deep", what, place(text, at), max_depth);
        }
      },
      [&](size_t) { --depth; });
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what, JsonLimits limits) {
  if (text.size() > limits.max_bytes) {
    fail("{}: {} bytes of JSON are more than the {} allowed", what, text.size(), limits.max_bytes);
  }
  check_depth(text, what, limits.max_depth);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    const auto* parse = dynamic_cast<const Json::parse_error*>(&error);
    const size_t byte = parse != nullptr && parse->byte > 0 ? parse->byte - 1 : 0;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    std::string reason = error.what();
    const size_t colon = reason.find(": ");
    if (colon != std::string::npos) reason = reason.substr(colon + 2);
    fail("{}: {}: not valid JSON: {}", what, place(text, byte), reason);
  }
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string printable_json(const Json& value) {
  const std::string text = dump_json(value);
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {  // such characters stand in strings only
    const bool wide = is_wide_control(text, i);
    if (wide) ++i;
    if (wide || text[i] == 0x7f) {
      shown += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[i]));
    } else {
      shown += text[i];
    }
  }
  return shown;
}

namespace json_detail {

void missing(std::string_view key, std::string_view what) {
  fail("{}: {} is missing", what, key);
}

void wrong(std::string_view key, std::string_view what, const Json& value,
           const std::string& expected) {
  std::string text = dump_json(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  fail("{}: {}: {} is not allowed; it must be {}", what, key, text, expected);
}

const Json* find(const Json& object, std::string_view key, std::string_view what) {
  if (!object.is_object()) fail("{}: is not an object, so has no {}", what, key);
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace json_detail

}  // namespace adaptdl
