#include "core/formats/json_fields.h"

namespace adaptdl {
namespace {

const Json& null() {
  static const Json none;
  return none;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

const Json& member(const Json& object, std::string_view key) {
  if (!object.is_object()) return null();
  const auto found = object.find(key);
  return found != object.end() ? *found : null();
}

const Json& object_at(const Json& object, std::string_view key) {
  static const Json none = Json::object();
  const Json& value = member(object, key);
  return value.is_object() ? value : none;
}

const Json& list_at(const Json& object, std::string_view key) {
  static const Json none = Json::array();
  const Json& value = member(object, key);
  return value.is_array() ? value : none;
}

std::string text_at(const Json& object, std::string_view key) {
  return text_of(member(object, key));
}

const Json& value_at_pointer(const Json& object, const char* pointer) {
  const Json::json_pointer place(pointer);
  return object.contains(place) ? object.at(place) : null();
}

std::string text_at_pointer(const Json& object, const char* pointer) {
  return text_of(value_at_pointer(object, pointer));
}

}  // namespace adaptdl
