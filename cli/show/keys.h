#pragma once

// Keys from the bytes that a terminal sends. Pure.

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::cli {

// A printable ASCII character is its own code.
inline constexpr int kKeyUp = 256, kKeyDown = 257, kKeyPageUp = 258, kKeyPageDown = 259,
                     kKeyHome = 260, kKeyEnd = 261, kKeyEnter = 262, kKeyEscape = 263;

class KeyReader {
 public:
  // The keys that the bytes complete. Unknown sequences and characters beyond ASCII are dropped.
  std::vector<int> take(std::string_view bytes);
  // Whether bytes wait for the rest of their sequence. If nothing follows within about 50 ms,
  // expire() says that it was the escape key.
  bool waits() const { return !waiting_.empty(); }
  std::vector<int> expire();

 private:
  std::string waiting_;
};

}  // namespace adaptdl::cli
