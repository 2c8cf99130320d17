#include "core/base/console.h"

#include <cerrno>
#include <unistd.h>

namespace adaptdl {

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) throw OutputClosed();
      fail_errno(errno, "standard output: cannot write");
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void print_line(std::string_view line) {
  print(std::string(line) + "\n");
}

void talk(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace adaptdl
