#pragma once

// The brackets of a JSON text, without parsing it. Exact for valid JSON. Pure.

#include <cstddef>
#include <string_view>

namespace adaptdl {

// Calls on_open(position) for each bracket that opens, and on_close(position) for each that closes;
// not for those in texts.
template <typename OnOpen, typename OnClose>
void for_each_bracket(std::string_view text, const OnOpen& on_open, const OnClose& on_close) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      on_open(i);
    } else if (c == ']' || c == '}') {
      on_close(i);
    }
  }
}

}  // namespace adaptdl
