#pragma once

// kubectl's output templates: text with JSONPath in braces.
//
//   {.jobs[*].name}                          what is there, blanks between several
//   {range .jobs[*]}{.name}{"\n"}{end}       once for each; paths in it begin at the item
//   {.jobs[?(@.phase=="Failed")].name}       of those for which it holds: == and !=
// A path is made of .name, ['name'], [0], [-1] (the last), [*] and .*; it may begin with $ (the
// whole) or @. Strings are printed as they are, other values as JSON; a missing value prints
// nothing.

#include <string>
#include <string_view>

#include "core/formats/json.h"

namespace adaptdl {

// Throws Error with the position in the template if it is invalid. The work is bounded by the
// length of the template times the size of the value, per level of nested ranges.
std::string json_path_text(const Json& value, std::string_view text);

}  // namespace adaptdl
