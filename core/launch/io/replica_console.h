#pragma once

// Shows what the replicas of a command write on this process's standard output and error, in whole
// lines. A thread writes: a stopped terminal or a slow reader of a pipe does not hold up the
// replicas. It may be 16 MiB behind; then output is dropped, which is told. Logs keep everything.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/signals.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

// A choice among standard output (1) and error (2) for each replica, as torchrun's --tee and
// --redirects: 0 none, 3 both.
struct StreamChoice {
  int all = 0;
  std::map<int, int> by_rank;  // replaces `all` once it is not empty; 0 for other ranks

  bool has(int rank, int stream) const;
};

// "3", or "0:3,1:2" for replicas 0 and 1. Throws UsageError "WHERE: ...".
StreamChoice parse_streams(const std::string& text, const std::string& where);

struct ConsoleOptions {
  using Choice = std::function<bool(int rank, int stream)>;
  Choice shown = [](int, int) { return true; };
  Choice prefixed = [](int, int) { return true; };
  bool prefix_one = false;  // also if there was only one replica so far
  std::vector<int> ranks;   // shows only these; empty: all
  // ${role_name}, ${rank} and ${local_rank} are replaced.
  std::string prefix = "[${role_name}${local_rank}]:";
  std::string role = "default";
  int out = 1, err = 2;  // descriptors, borrowed
  // Called at most once, in the thread that writes: `out` has a reader, but cannot be written, as
  // on a full disk. `err` has been told.
  std::function<void()> broken = [] {};
};

// Splits one stream into lines. A progress bar overwrites its line by carriage returns: only its
// last state remains. A line of more than 64 KiB comes in pieces. One thread.
class LineSplitter {
 public:
  // Returns the complete lines, each with its newline, each after `prefix`; with `states` those of
  // a progress bar, too, each with its carriage return. No bytes: the stream has ended, and its
  // last line may lack a newline.
  std::string take(std::string_view bytes, std::string_view prefix, bool states = false);

 private:
  std::string rest_;
  bool cut_ = false;  // the last line was a piece of a long one
};

// Thread-safe.
class ReplicaConsole {
 public:
  explicit ReplicaConsole(ConsoleOptions options);
  ~ReplicaConsole();  // abandons what is not written yet
  ReplicaConsole(const ReplicaConsole&) = delete;
  ReplicaConsole& operator=(const ReplicaConsole&) = delete;

  // So many replicas start now, `first_rank` and those after it on this host; call it before their
  // first output. Options choose among them by their number on this host, as torchrun does.
  void replicas(int count, int first_rank = 0);
  void take(MemberId rank, int stream, std::string_view bytes);  // as LogWriter::Echo

  // True once everything is written; waits for that, at most until the deadline.
  bool drain(TimePoint deadline);
  // Without limit, until a signal other than SIGCHLD comes.
  void drain(SignalCatcher& signals);

 private:
  struct Shared;

  const ConsoleOptions options_;
  const bool terminal_[2];  // by stream - 1
  std::shared_ptr<Shared> shared_;
};

}  // namespace adaptdl::launch
