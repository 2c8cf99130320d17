#include "core/cluster/kubernetes/fields.h"

namespace adaptdl::kubernetes {

const Json& member(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found != object.end() ? *found : none;
}

const Json& object_at(const Json& object, const char* key) {
  static const Json none = Json::object();
  const Json& value = member(object, key);
  return value.is_object() ? value : none;
}

const Json& list_at(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json& value = member(object, key);
  return value.is_array() ? value : none;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace adaptdl::kubernetes
