#pragma once

// Base64 (RFC 4648, section 4), padded, on one line. Thread-safe.

#include <string>
#include <string_view>

namespace adaptdl {

std::string to_base64(std::string_view bytes);

// Skips blanks and line ends. Throws an Error for other characters and a wrong length; the message
// names `what`, but not the text, which may be secret.
std::string from_base64(std::string_view text, std::string_view what);

}  // namespace adaptdl
