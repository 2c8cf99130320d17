#pragma once

// An API server's answers, in which objects of many authors stand side by side: one that is nested
// too deeply to be handled must not hide the others. Thread-safe (pure functions).

#include <string_view>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kube {

inline constexpr int kMostDepth = 64;  // within an object, counting itself

// A member of objects of which parse_answer() has left something out; its value is true.
inline constexpr const char* kTooDeep = "adaptdl/tooDeep";

// Where the objects of an answer are: it is one itself; they are its members, as in a watch's
// event; or its members' members, as in a list, or in the request of an admission review.
enum class ObjectsAre { whole, members, below_members };

// Parses an answer. In an object that is nested more than kMostDepth deep, what is deeper is null,
// and the object has the member kTooDeep. Throws Error for what is not JSON, as parse_json() does.
Json parse_answer(std::string_view text, std::string_view what, ObjectsAre objects);

struct ListAnswer {
  Json list;  // its items are 0
  std::vector<std::string_view> items;
};

// Takes a list apart before its items are parsed: one after the other they need far less memory,
// which their authors decide, than all at once. The items are parts of `text`. Throws Error for
// what is not JSON outside of them, and for items that are not objects.
ListAnswer parse_list(std::string_view text, std::string_view what);

// Whether parse_answer() has left something of the object out.
bool too_deep(const Json& object);

}  // namespace adaptdl::kube
