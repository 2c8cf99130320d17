#pragma once

// The terminal while a command shows a picture that it redraws: a screen of its own without cursor
// on standard output, and keys one by one, without echo, from standard input.

#include <optional>
#include <string>
#include <termios.h>
#include <vector>

namespace adaptdl::cli {

// One object at a time, one thread. The terminal's state is restored by leave() and by the
// destructor; signals are the caller's business.
class Screen {
 public:
  Screen();  // enter()
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void enter();
  // Never throws: a terminal that is gone needs no restoring.
  void leave() noexcept;

  // Replaces the picture; no line may be wider than the terminal. Throws as print().
  void show(const std::vector<std::string>& lines);

  // The descriptor with the keys; negative if standard input is no terminal, or has ended.
  int key_fd() const { return keys_; }
  std::string read_keys();  // call when key_fd() is readable

 private:
  bool entered_ = false;
  int keys_ = -1;
  std::optional<termios> before_;
};

}  // namespace adaptdl::cli
