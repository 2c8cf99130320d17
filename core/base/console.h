#pragma once

// Console output: results go to standard output, messages to standard error.

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace adaptdl {

// The reader of standard output is gone (`adaptdl ls | head -1`): exit 1 without a message.
class OutputClosed : public Error {
 public:
  OutputClosed() : Error("standard output is closed") {}
};

// Writes everything to standard output, unbuffered. Throws OutputClosed, or Error for a full disk.
void print(std::string_view text);
void print_line(std::string_view line);

// Writes to standard error; ignores errors, because there is nowhere to report them.
void talk(std::string_view line);

}  // namespace adaptdl
