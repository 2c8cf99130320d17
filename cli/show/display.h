#pragma once

// Shows a run while it lasts: on a terminal two lines that are redrawn a few times a second, with
// log lines scrolling above them; elsewhere only log lines, some of them about progress.

#include <memory>
#include <string>

#include "cli/show/progress.h"

namespace adaptdl::cli {

class Display {
 public:
  struct Options {
    int fd = 2;
    bool moving = false;  // a terminal whose cursor may be moved
    bool color = false;
    bool utf8 = false;
    bool verbose = false;  // more kinds of log lines
    bool quiet = false;    // shows nothing, but keeps the state
  };

  explicit Display(const Options& options);
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;
  ~Display();  // finish()

  // Any thread. Neither function waits for the terminal: a thread writes, and drops the oldest
  // lines when the terminal does not keep up. After finish() talk() writes the line itself.
  void event(const Json& event);
  void talk(const std::string& line);

  // Writes the remaining lines, leaves the cursor at the start of an empty line, and returns the
  // state of the run. Waits at most a second for a terminal that is stopped (Ctrl-S).
  RunState finish();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace adaptdl::cli
