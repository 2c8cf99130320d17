#pragma once

// Where words go: results to standard output, talk to standard error.

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace adaptdl {

// Nobody reads standard output any more (`adaptdl ls | head -1`): exit 1, without a word.
class OutputClosed : public Error {
 public:
  OutputClosed() : Error("standard output is closed") {}
};

// Writes everything to standard output, at once. Throws OutputClosed, or Error for a full disk.
void print(std::string_view text);
void print_line(std::string_view line);

// Standard error; problems are ignored, as there is nobody left to tell.
void talk(std::string_view line);

}  // namespace adaptdl
