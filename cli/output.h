#pragma once

// Where words go: results to standard output, talk to standard error, colour only on terminals.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace adaptdl::cli {

// Nobody reads standard output any more (`adaptdl ls | head -1`): exit 1, without a word.
class OutputClosed : public Error {
 public:
  OutputClosed() : Error("standard output is closed") {}
};

// Writes everything to standard output, at once. Throws OutputClosed, or Error for a full disk.
void print(std::string_view text);
void print_line(std::string_view line);
// One record on one line.
void print_json(const Json& value);

// Standard error; problems are ignored, as there is nobody left to tell.
void talk(std::string_view line);

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
