#pragma once

// Tar files, entry by entry.

#include <cstdio>
#include <cstring>
#include <string>

namespace fixtures {

// A header of POSIX's ustar, and the content.
inline std::string tar_entry(const std::string& name, const std::string& content, char type = '0') {
  std::string block(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    block.replace(at, text.size(), text);
  };
  char size[16];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, size);
  block[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  put(148, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, std::string(digits, 6) + '\0' + ' ');
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace fixtures
