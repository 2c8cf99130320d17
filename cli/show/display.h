#pragma once

// Shows a run while it lasts: on a terminal two lines that are redrawn a few times a second, with
// log lines scrolling by above them; elsewhere log lines alone, some of them on progress.

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
    bool quiet = false;    // shows nothing; the state is kept all the same
  };

  explicit Display(const Options& options);
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;
  ~Display();  // finish()

  // Any thread; neither waits for the terminal: a thread of its own writes, and when it cannot, the
  // oldest lines are dropped.
  void event(const Json& event);
  void talk(const std::string& line);

  // Writes what is left, leaves the cursor at the start of a free line, and returns what is known
  // of the run. Waits for a terminal that takes nothing (Ctrl-S) for at most a second.
  RunState finish();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace adaptdl::cli
