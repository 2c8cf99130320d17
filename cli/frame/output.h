#pragma once

// Formats results: records, tables, wrapped text; colour only on terminals.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/frame/names.h"
#include "core/base/console.h"
#include "core/formats/json.h"

namespace adaptdl::cli {

// Prints a record on one line, without control characters.
void print_json(const Json& value);

// Whether it is a terminal with colours and cursor movement, and the user has not disabled them.
bool is_fancy(int fd, bool no_color);
// Whether the locale's characters are UTF-8 (LC_ALL, LC_CTYPE, LANG).
bool is_utf8();

// Left-aligned columns, separated by two blanks; the last one is not padded. Rows have the length
// of `head`. `widths`: how wide the columns are at least (empty: as narrow as possible); then, how
// wide they are.
std::string table(const std::vector<std::string>& head, std::vector<std::vector<std::string>> rows,
                  std::vector<size_t>* widths = nullptr);

// The same in at most `width` columns, where the last column's texts leave room for that: they go
// on in lines below. 0: unlimited.
std::string wrapped_table(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows, size_t width);

// "3 x 4", or "scalar": the shape of a tensor.
std::string shape_text(const std::vector<int64_t>& shape);

// "12.3k": three digits, and k, M or G.
std::string short_number(double value);

// "12.5 MB/s", as networks are measured.
std::string network_rate(double bytes_per_s);

// The word as a POSIX shell reads it: in single quotes if it needs them.
std::string shell_word(std::string_view word);

// The text in lines of at most `width` columns; each but the first starts with `indent` blanks.
std::string wrap(std::string_view text, size_t width, size_t indent);

}  // namespace adaptdl::cli
