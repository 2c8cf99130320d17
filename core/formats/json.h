#pragma once

// JSON from outside: bounded, with errors that name the place. Thread-safe (pure functions).

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace adaptdl {

using Json = nlohmann::json;

struct JsonLimits {
  size_t max_bytes = 64u << 20;
  int max_depth = 64;
};

// Parses the whole text. Throws Error "WHAT: line L, column C: ..." for what is not JSON, is not
// UTF-8, is too large or nested too deeply.
Json parse_json(std::string_view text, std::string_view what, JsonLimits limits = {});

// One line. Never throws: bytes that are not UTF-8 become U+FFFD; NaN and the infinities become
// null, because JSON has neither.
std::string dump_json(const Json& value);

// The same for a terminal: with 0x7f and the control characters of eight bits (U+0080 to U+009F)
// escaped, too, which JSON and YAML allow as they are.
std::string printable_json(const Json& value);

namespace json_detail {

[[noreturn]] void missing(std::string_view key, std::string_view what);
[[noreturn]] void wrong(std::string_view key, std::string_view what, const Json& value,
                        const std::string& expected);
const Json* find(const Json& object, std::string_view key, std::string_view what);

template <typename T>
struct is_vector : std::false_type {};
template <typename T>
struct is_vector<std::vector<T>> : std::true_type {};

template <typename T>
T convert(const Json& value, std::string_view key, std::string_view what) {
  if constexpr (std::is_same_v<T, Json>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) wrong(key, what, value, "true or false");
    return value.get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) wrong(key, what, value, "text");
    return value.get<std::string>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) wrong(key, what, value, "a number");
    return value.get<T>();
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits) {
      wrong(key, what, value,
            fmt::format("an integer from {} to {}", Limits::min(), Limits::max()));
    }
    return value.get<T>();
  } else {
    static_assert(is_vector<T>::value,
                  "json_get: T is bool, a number, std::string, Json, or a "
                  "std::vector of these");
    if (!value.is_array()) wrong(key, what, value, "a list");
    T result;
    result.reserve(value.size());
    for (const Json& item : value) {
      result.push_back(convert<typename T::value_type>(item, key, what));
    }
    return result;
  }
}

}  // namespace json_detail

// object[key] as T: bool, an integer type (must fit), double, std::string, Json, or a vector of
// these. Throws Error "WHAT: KEY: ..." if `object` is not an object, the key is missing, or the
// type differs.
template <typename T>
T json_get(const Json& object, std::string_view key, std::string_view what) {
  const Json* value = json_detail::find(object, key, what);
  if (value == nullptr) json_detail::missing(key, what);
  return json_detail::convert<T>(*value, key, what);
}

// As json_get, but a missing key or null gives `otherwise`, or nothing.
template <typename T>
T json_get_or(const Json& object, std::string_view key, std::string_view what, T otherwise) {
  const Json* value = json_detail::find(object, key, what);
  if (value == nullptr || value->is_null()) return otherwise;
  return json_detail::convert<T>(*value, key, what);
}
template <typename T>
std::optional<T> json_find(const Json& object, std::string_view key, std::string_view what) {
  const Json* value = json_detail::find(object, key, what);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return json_detail::convert<T>(*value, key, what);
}

}  // namespace adaptdl
