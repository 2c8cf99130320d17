#include "cli/show/screen.h"

#include <cerrno>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/system.h"

namespace adaptdl::cli {

Screen::Screen() : keys_(is_terminal(STDIN_FILENO) ? STDIN_FILENO : -1) {
  enter();
}

Screen::~Screen() {
  leave();
}

void Screen::enter() {
  if (entered_) return;
  termios settings{};
  if (keys_ >= 0 && tcgetattr(keys_, &settings) == 0) {
    before_ = settings;
    // Ctrl-C and Ctrl-Z still send signals.
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    settings.c_cc[VMIN] = 1;
    settings.c_cc[VTIME] = 0;
    tcsetattr(keys_, TCSANOW, &settings);
  }
  entered_ = true;
  try {
    print("\x1b[?1049h\x1b[?25l");
  } catch (const Error&) {
    leave();
    throw;
  }
}

void Screen::leave() noexcept {
  if (!entered_) return;
  entered_ = false;
  if (before_) {
    tcflush(STDIN_FILENO, TCIFLUSH);  // keys meant for the picture must not reach the shell
    tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
    before_.reset();
  }
  try {
    print("\x1b[?25h\x1b[?1049l");
  } catch (const std::exception&) {
  }
}

void Screen::show(const std::vector<std::string>& lines) {
  std::string picture = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) picture += "\r\n";
    picture += lines[i] + "\x1b[K";
  }
  print(picture + "\x1b[J");
}

std::string Screen::read_keys() {
  char bytes[256];
  const ssize_t got = read(keys_, bytes, sizeof bytes);
  if (got > 0) return {bytes, static_cast<size_t>(got)};
  if (got == 0 || (errno != EINTR && errno != EAGAIN)) keys_ = -1;
  return "";
}

}  // namespace adaptdl::cli
