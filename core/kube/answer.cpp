#include "core/kube/answer.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/formats/json_brackets.h"

namespace adaptdl::kube {
namespace {

bool is_deep(std::string_view text, int most) {
  int depth = 0, deepest = 0;
  for_each_bracket(
      text, [&](size_t) { deepest = std::max(deepest, ++depth); }, [&](size_t) { --depth; });
  return deepest > most;
}

// The text with null in place of what is deeper than `most`, and with kTooDeep in the objects at
// the depth `of_objects` that contained it.
std::string shallow(std::string_view text, int of_objects, int most) {
  std::string result;
  size_t taken = 0;
  int depth = 0;
  bool cut = false;
  for_each_bracket(
      text,
      [&](size_t at) {
        if (++depth != most + 1) return;
        result += text.substr(taken, at - taken);
        result += "null";
        cut = true;
      },
      [&](size_t at) {
        if (depth == most + 1) taken = at + 1;
        if (depth == of_objects && text[at] == '}' && cut) {
          result += text.substr(taken, at - taken);
          result += fmt::format(R"(,"{}":true)", kTooDeep);
          taken = at;
          cut = false;
        }
        --depth;
      });
  return result += text.substr(taken);
}

// Whether what begins there is the value of this key, written with its quotes.
bool is_value_of(std::string_view text, size_t at, std::string_view key) {
  constexpr std::string_view kBlank = " \t\r\n";
  text = text.substr(0, at);
  text = text.substr(0, text.find_last_not_of(kBlank) + 1);
  if (!text.ends_with(':')) return false;
  text.remove_suffix(1);
  return text.substr(0, text.find_last_not_of(kBlank) + 1).ends_with(key);
}

}  // namespace

Json parse_answer(std::string_view text, std::string_view what, ObjectsAre objects) {
  const int of_objects = 1 + static_cast<int>(objects);
  const int most = of_objects - 1 + kMostDepth;
  const JsonLimits limits{.max_bytes = std::numeric_limits<size_t>::max(), .max_depth = most};
  if (!is_deep(text, most)) return parse_json(text, what, limits);
  return parse_json(shallow(text, of_objects, most), what, limits);
}

ListAnswer parse_list(std::string_view text, std::string_view what) {
  ListAnswer answer;
  std::string rest;
  int depth = 0;
  size_t taken = 0, begun = 0;
  bool in_items = false;
  for_each_bracket(
      text,
      [&](size_t at) {
        ++depth;
        if (depth == 2) in_items = text[at] == '[' && is_value_of(text, at, "\"items\"");
        if (depth == 3 && in_items && text[at] == '{') begun = at;
      },
      [&](size_t at) {
        if (depth == 3 && in_items && text[at] == '}') {
          answer.items.push_back(text.substr(begun, at + 1 - begun));
          rest += text.substr(taken, begun - taken);
          rest += "0";
          taken = at + 1;
        }
        --depth;
      });
  rest += text.substr(taken);
  answer.list = parse_answer(rest, what, ObjectsAre::whole);
  if (!answer.list.is_object()) fail("{}: the answer is not a list", what);
  const Json& items = answer.list["items"];
  if (!items.is_array() && !items.is_null()) fail("{}: items is not a list", what);
  if (items.size() != answer.items.size()) fail("{}: an item is not an object", what);
  return answer;
}

bool too_deep(const Json& object) {
  return object.is_object() && object.contains(kTooDeep);
}

}  // namespace adaptdl::kube
