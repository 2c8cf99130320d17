#pragma once

// One record for every setting of adaptdl.yaml. Parsing, validation, describe() and the manual page
// use the same table (training_fields.cpp), so they cannot differ.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/formats/yaml.h"

namespace adaptdl::settings {

// What a field holds. A choice is its index in Field::choices, a duration its seconds; monostate
// means that an optional member is not given.
using Value =
    std::variant<std::monostate, std::string, int64_t, uint64_t, double, bool, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>, std::pair<int, int>>;

enum class Type {
  text,
  integer,
  natural,
  real,
  duration,
  boolean,
  choice,
  integers,
  reals,
  texts,
  range
};

struct Field {
  std::string_view key;  // within its section
  Type type = Type::text;
  std::string_view unit;  // "" = a plain number
  NumberBounds bounds;    // of a number, or of each number of a list
  std::vector<std::string_view> choices;
  // Kinds of the section (its field `kind` or `format`) that have this field; empty = all.
  std::vector<std::string_view> applies;
  bool required = false;
  std::string_view fallback;  // the default in words; "" = the member's initial value
  std::string_view doc;
  Value (*get)(const void* object) = nullptr;
  void (*set)(void* object, const Value& value) = nullptr;  // Requires: checked against the above
};

struct Section {
  std::string_view name;   // as in the manual: "data.train[]"
  std::string_view intro;  // one or two sentences for the manual
  std::vector<Field> fields;
  const void* defaults;  // an object with initial values
};

// The settings' sections; `optimizer_numbers` belong to the optimizer and to each of its groups.
struct Table {
  Section root, data, source, batch, optimizer, optimizer_numbers, group, schedule, best,
      early_stopping, from;
};
const Table& table();

// Whether sections of this kind have the field (any kind if the section has no kinds).
bool applies_to(const Field& field, std::string_view kind);

// "an integer from 1 to 64", "one of sgd, adam", ...
std::string allowed(const Field& field);

// The value as written in the file; "" for an empty text or list.
std::string to_text(const Field& field, const Value& value);

// The default of the field, for people.
std::string default_text(const Section& section, const Field& field);

// Binds a field to a member of a plain struct.
template <typename T>
struct is_optional_enum : std::false_type {};
template <typename T>
struct is_optional_enum<std::optional<T>> : std::is_enum<T> {};

template <auto Member>
struct Access;
template <typename Object, typename T, T Object::*Member>
struct Access<Member> {
  static Value get(const void* object) {
    const T& value = static_cast<const Object*>(object)->*Member;
    if constexpr (std::is_enum_v<T>) {
      return static_cast<int64_t>(value);
    } else if constexpr (is_optional_enum<T>::value) {
      return value ? Value(static_cast<int64_t>(*value)) : Value();
    } else if constexpr (std::is_same_v<T, std::optional<std::pair<int, int>>>) {
      return value ? Value(*value) : Value();
    } else if constexpr (std::is_same_v<T, int>) {
      return static_cast<int64_t>(value);
    } else {
      return value;
    }
  }

  static void set(void* object, const Value& value) {
    T& member = static_cast<Object*>(object)->*Member;
    if constexpr (std::is_enum_v<T>) {
      member = static_cast<T>(std::get<int64_t>(value));
    } else if constexpr (is_optional_enum<T>::value) {
      member = static_cast<typename T::value_type>(std::get<int64_t>(value));
    } else if constexpr (std::is_same_v<T, std::optional<std::pair<int, int>>>) {
      member = std::get<std::pair<int, int>>(value);
    } else if constexpr (std::is_same_v<T, int>) {
      member = static_cast<int>(std::get<int64_t>(value));
    } else {
      member = std::get<T>(value);
    }
  }

  static constexpr Type type() {
    if constexpr (std::is_enum_v<T> || is_optional_enum<T>::value) return Type::choice;
    if constexpr (std::is_same_v<T, std::string>) return Type::text;
    if constexpr (std::is_same_v<T, bool>) return Type::boolean;
    if constexpr (std::is_same_v<T, double>) return Type::real;
    if constexpr (std::is_same_v<T, uint64_t>) return Type::natural;
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) return Type::integers;
    if constexpr (std::is_same_v<T, std::vector<double>>) return Type::reals;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) return Type::texts;
    if constexpr (std::is_same_v<T, std::optional<std::pair<int, int>>>) return Type::range;
    return Type::integer;
  }

  // The largest number that fits the member.
  static constexpr double limit() {
    if constexpr (std::is_same_v<T, int>) return std::numeric_limits<int>::max();
    // Larger counts are mistakes, and products of a few counts must not overflow.
    if constexpr (std::is_same_v<T, int64_t>) return 1e12;
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) return 1e12;
    return std::numeric_limits<double>::infinity();
  }
};

}  // namespace adaptdl::settings
