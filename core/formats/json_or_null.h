#pragma once

// JSON of what may be missing: null then. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

inline Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

template <typename T>
Json or_null(const std::vector<T>& list) {
  return list.empty() ? Json() : Json(list);
}

}  // namespace adaptdl
