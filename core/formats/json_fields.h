#pragma once

// Fields of JSON from others: a field that is missing, or of another type, reads as empty. For JSON
// that must be valid use json_get() (json.h). Pure; never throws. `object` may be of any type.
// Returned references are valid as long as `object`.

#include <string>
#include <string_view>

#include "core/formats/json.h"

namespace adaptdl {

const Json& member(const Json& object, std::string_view key);     // null if there is none
const Json& object_at(const Json& object, std::string_view key);  // {} where there is no object
const Json& list_at(const Json& object, std::string_view key);    // [] where there is no list
std::string text_at(const Json& object, std::string_view key);    // "" where there is no text

// The same by a JSON pointer: "/spec/containers/0/name", with ~1 for a slash in a key.
const Json& value_at_pointer(const Json& object, const char* pointer);
std::string text_at_pointer(const Json& object, const char* pointer);

}  // namespace adaptdl
