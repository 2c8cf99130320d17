#pragma once

// Fields of API objects that others wrote: what is missing, or of another type, is empty. Pure;
// never throw. `object` may be anything. What is returned by reference lives as long as `object`.

#include <string>

#include "core/base/json.h"

namespace adaptdl::kubernetes {

const Json& member(const Json& object, const char* key);     // null if there is none
const Json& object_at(const Json& object, const char* key);  // {} where there is no object
const Json& list_at(const Json& object, const char* key);    // [] where there is no list
std::string text(const Json& object, const char* key);       // "" where there is no text

}  // namespace adaptdl::kubernetes
