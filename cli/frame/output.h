#pragma once

// How results look: records, tables, wrapped text, colour only on terminals.

#include <string>
#include <string_view>
#include <vector>

#include "cli/frame/names.h"
#include "core/base/console.h"
#include "core/formats/json.h"

namespace adaptdl::cli {

// One record on one line.
void print_json(const Json& value);

// A terminal that understands colours and moving the cursor, and a user who did not refuse it.
bool is_fancy(int fd, bool no_color);
// The locale's characters are UTF-8 (LC_ALL, LC_CTYPE, LANG).
bool is_utf8();

// Left-aligned columns two blanks apart; the last one is not padded. Rows are as long as `head`.
std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows);

// The text in lines of at most `width` columns, each but the first behind `indent` blanks.
std::string wrap(std::string_view text, size_t width, size_t indent);

}  // namespace adaptdl::cli
