#pragma once

// The replicas' logs. The standard output and error of a replica go through a pipe into a file of
// its own, which is rotated and capped. A thread reads and writes, so that a slow disk does not
// delay decisions. A full disk loses log text; it never blocks a replica.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

// The offset in the log file at `path` (of a LogWriter, rotated or not) of what was written at
// `wall_s` (seconds since 1970) or later, precise to about a second; the file's size if nothing
// was. Never in the middle of a line that began before. Throws Error if the file cannot be read.
int64_t log_offset_at(const std::string& path, double wall_s);

// LOG.times beside each log maps offsets to times: a line "OFFSET SECONDS" at most once a second,
// for log_offset_at. Thread-safe.
class LogWriter {
 public:
  // Called on the thread with all that a replica writes. `stream` is 1 or 2 for open_streams(),
  // else 1. No bytes: the stream has ended. Should not block.
  using Echo = std::function<void(MemberId member, int stream, std::string_view bytes)>;
  // An Echo that writes everything to standard error.
  static Echo to_standard_error();

  // Creates `folder`. A file that would grow beyond `bytes_max` becomes FILE.1 first. The thread
  // calls `talk` once if logs cannot be written.
  LogWriter(std::string folder, int64_t bytes_max, std::function<void(std::string)> talk,
            Echo echo = {});
  ~LogWriter();  // reads what is left in the pipes
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // The write end of a new pipe for the child's standard output and error; close it after the
  // start. Appends to what an earlier run left in this replica's file.
  Fd open(MemberId member);

  // The same with a pipe for each of the two, so that the Echo can tell them apart; one file. What
  // a replica writes to both at once may change its order.
  struct Streams {
    Fd out, err;
  };
  Streams open_streams(MemberId member);

  // The replica's last lines (at most `count`, each of at most 300 bytes). Waits until it has
  // closed its pipe, at most until the deadline. Replaces control characters.
  std::vector<std::string> tail(MemberId member, int count, TimePoint deadline);

  // The last 20 lines of a replica that has ended; waits for them at most 100 ms.
  std::vector<std::string> final_lines(MemberId member);

  static std::string file_name(MemberId member);

 private:
  struct Log;

  std::shared_ptr<Log> add(MemberId member);  // without pipes
  void begin(std::shared_ptr<Log> log);
  void loop();
  void take(Log& log, int stream);  // reads once and writes; closes at the end of the stream
  void complain(const std::string& path, int error);
  void wake();

  const std::string folder_;
  const int64_t bytes_max_;
  const std::function<void(std::string)> talk_;
  const Echo echo_;
  bool complained_ = false;  // used by the thread only
  Fd wake_;
  std::mutex mutex_;
  std::condition_variable_any closed_;
  std::map<MemberId, std::shared_ptr<Log>> logs_;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace adaptdl::launch
