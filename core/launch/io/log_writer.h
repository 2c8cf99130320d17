#pragma once

// The replicas' logs: what each writes to standard output and error goes through a pipe into a file
// of its own, rotated and capped. A thread of its own reads and writes, so that a slow disk holds
// up no decision; a full disk loses text, never holds up a replica.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

// Where in the log file at `path` (of a LogWriter, rotated or not) that begins which was written at
// `wall_s` (seconds since 1970) or later, to about a second; its size if nothing was. Never in the
// middle of a line that began before. Throws Error for a file that cannot be read.
int64_t log_offset_at(const std::string& path, double wall_s);

// Beside each log, LOG.times says when what was written: a line "OFFSET SECONDS" at most once a
// second, for log_offset_at. Thread-safe.
class LogWriter {
 public:
  // Makes `folder`. A file that would grow beyond `bytes_max` becomes FILE.1 first. `talk` gets,
  // once, a sentence about logs that cannot be written; from the thread.
  // With `echo` all goes to standard error as well.
  LogWriter(std::string folder, int64_t bytes_max, std::function<void(std::string)> talk,
            bool echo = false);
  ~LogWriter();  // takes in what the pipes hold
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // The end of a new pipe to be the child's standard output and error; close it after the start.
  // What an earlier run left in this replica's file stays before it.
  Fd open(MemberId member);

  // The last lines (at most `count`, each of at most 300 bytes) that the replica wrote, once it has
  // closed its pipe; waits for that until the deadline. Control characters are replaced.
  std::vector<std::string> tail(MemberId member, int count, TimePoint deadline);

  // What is shown of a replica that has ended: its last 20 lines, for which it waits 100 ms at
  // most.
  std::vector<std::string> final_lines(MemberId member);

  static std::string file_name(MemberId member);

 private:
  struct Log;

  void loop();
  void take(Log& log);  // reads once and writes; closes at the end
  void complain(const std::string& path, int error);
  void wake();

  const std::string folder_;
  const int64_t bytes_max_;
  const std::function<void(std::string)> talk_;
  const bool echo_;
  bool complained_ = false;  // the thread's own
  Fd wake_;
  std::mutex mutex_;
  std::condition_variable_any closed_;
  std::map<MemberId, std::shared_ptr<Log>> logs_;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace adaptdl::launch
