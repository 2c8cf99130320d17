#include "core/launch/io/log_writer.h"

#include <cerrno>
#include <doctest/doctest.h>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

struct Said {
  std::mutex mutex;
  std::vector<std::string> lines;
  void operator()(std::string line) {
    std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
};

std::string numbered(int first, int last) {
  std::string text;
  for (int i = first; i < last; ++i) text += fmt::format("line {:06}\n", i);
  return text;
}

}  // namespace

TEST_CASE("logs: rotated once, capped, and without a gap") {
  TemporaryDirectory folder("adaptdl-logs");
  const int64_t cap = 100'000;
  Said said;
  {
    LogWriter logs(folder.path(), cap, std::ref(said));
    const Fd pipe = logs.open(3);
    for (int i = 0; i < 40'000; i += 100) write_all(pipe.get(), numbered(i, i + 100), "log");
  }
  const std::string path = folder.file("replica-3.log");
  const std::string older = read_file(path + ".1", 1 << 20), newer = read_file(path, 1 << 20);
  CHECK(older.size() <= cap);
  CHECK(newer.size() <= cap);
  CHECK(older.size() > cap / 2);
  const std::string all = older + newer;
  // The oldest line may be cut; from the next one on every one is there.
  const size_t whole = all.find('\n') + 1;
  CHECK(all.substr(whole) == numbered(std::stoi(all.substr(whole + 5)), 40'000));
  CHECK(list_directory(folder.path()) ==
        std::vector<std::string>{"replica-3.log", "replica-3.log.1", "replica-3.log.1.times",
                                 "replica-3.log.times"});
  CHECK(said.lines.empty());
}

TEST_CASE("logs: what an earlier run left counts, and the last lines are known") {
  TemporaryDirectory folder("adaptdl-logs");
  write_file_atomic(folder.file("replica-0.log"), numbered(0, 10));
  Said said;
  LogWriter logs(folder.path(), 1000, std::ref(said));
  Fd pipe = logs.open(0);
  write_all(pipe.get(), "one\n\x1b[31mtwo\n", "log");
  pipe.reset();
  const auto deadline = Monotonic::now() + std::chrono::seconds(10);
  CHECK(logs.tail(0, 2, deadline) == std::vector<std::string>{"one", " [31mtwo"});
  CHECK(read_file(folder.file("replica-0.log"), 1000) == numbered(0, 10) + "one\n\x1b[31mtwo\n");
}

TEST_CASE("logs: a full disk holds up nobody, and is told once") {
  TemporaryDirectory folder("adaptdl-logs");
  REQUIRE(::symlink("/dev/full", folder.file("replica-0.log").c_str()) == 0);
  Said said;
  {
    LogWriter logs(folder.path(), 1 << 20, std::ref(said));
    const Fd lost = logs.open(0), kept = logs.open(1);
    // Far more than the pipe holds: it is read all the same.
    for (int i = 0; i < 20'000; i += 100) {
      write_all(lost.get(), numbered(i, i + 100), "log");
      write_all(kept.get(), numbered(i, i + 100), "log");
    }
  }
  CHECK(read_file(folder.file("replica-1.log"), 1 << 20) == numbered(0, 20'000));
  REQUIRE(said.lines.size() == 1);
  CHECK(said.lines[0].find("replica-0.log: No space left on device") != std::string::npos);
}

TEST_CASE("logs: where no file can be made, or none renamed, the cap holds and it is told") {
  TemporaryDirectory folder("adaptdl-logs");
  make_directories(folder.file("replica-0.log"));      // in the way
  make_directories(folder.file("replica-1.log.1/x"));  // cannot be replaced by a file
  Said said;
  {
    LogWriter logs(folder.path(), 40'000, std::ref(said));
    const Fd lost = logs.open(0), kept = logs.open(1);
    for (int i = 0; i < 20'000; i += 100) {
      write_all(lost.get(), numbered(i, i + 100), "log");
      write_all(kept.get(), numbered(i, i + 100), "log");
    }
  }
  const std::string text = read_file(folder.file("replica-1.log"), 1 << 20);
  CHECK(text.size() <= 40'000);
  CHECK(text.ends_with(numbered(19'990, 20'000)));
  CHECK(said.lines.size() == 1);
}

TEST_CASE("logs: when what was written") {
  TemporaryDirectory folder("adaptdl-logs");
  const std::string path = folder.file("replica-0.log");
  write_file_atomic(path, "one\ntwo\nthree\n");
  write_file_atomic(path + ".times", "0 100\n4 105\nnonsense\n8 120\n");
  CHECK(log_offset_at(path, 50) == 0);
  CHECK(log_offset_at(path, 100.7) == 0);  // to the second
  CHECK(log_offset_at(path, 101) == 4);
  CHECK(log_offset_at(path, 120) == 8);
  CHECK(log_offset_at(path, 121) == 14);
  write_file_atomic(path + ".times", "99 100\n");
  CHECK(log_offset_at(path, 50) == 14);  // never behind its end
  CHECK_THROWS_AS(log_offset_at(folder.file("none"), 0), Error);
  {
    Said said;
    LogWriter logs(folder.path(), 1000, std::ref(said));
    const Fd pipe = logs.open(1);
    write_all(pipe.get(), "a line\n", "log");
  }
  const double now = wall_now_s();
  CHECK(log_offset_at(folder.file("replica-1.log"), now - 60) == 0);
  CHECK(log_offset_at(folder.file("replica-1.log"), now + 60) == 7);
}
