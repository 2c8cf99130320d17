#include "cli/show/display.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <pty.h>
#include <termios.h>
#include <thread>
#include <unistd.h>

#include "cli/commands/run_events.h"
#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "tests/support/least_of_three.h"

namespace adaptdl::cli {
namespace {

struct Pty {
  Fd master, slave;
  Pty() {
    int ends[2];
    const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(openpty(&ends[0], &ends[1], nullptr, nullptr, &size) == 0);
    master = Fd(ends[0]);
    slave = Fd(ends[1]);
  }
  // What has been written so far, for at least `seconds`, and until `done` is satisfied or 10 s.
  std::string read(const std::function<bool(const std::string&)>& done) {
    std::string text;
    const TimePoint start = Monotonic::now();
    while (!done(text) && seconds_since(start) < 10.0) {
      pollfd ready{.fd = master.get(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 50) <= 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(master.get(), buffer, sizeof buffer);
      if (count > 0) text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }
};

Json start_event() {
  return {{"event", "start"}, {"time_s", 0.0}, {"name", "n"}, {"program", "p"}, {"replicas", 1}};
}
Json step_event(int64_t number) {
  return {{"event", "step"}, {"time_s", 0.1},          {"step", number}, {"epoch", 0.5},
          {"progress", 5.0}, {"progress_total", 10.0}, {"loss", 0.25}};
}
Json rescale_event() {
  return {{"event", "rescale"}, {"time_s", 1.0}, {"from", 1}, {"to", 2}, {"pause_s", 0.5}};
}

struct Shown {
  double events_s, finish_s;
};
// Shows much, also lines, and how long that took.
Shown show_much(int fd) {
  Display display({.fd = fd, .moving = true});
  const TimePoint begun = Monotonic::now();
  display.event(start_event());
  for (int i = 0; i < 20000; ++i) {
    display.event(step_event(i));
    if (i % 10 == 0) display.talk("a line that nobody reads");
  }
  const TimePoint told = Monotonic::now();
  display.finish();
  return {seconds_between(begun, told), seconds_since(told)};
}

std::string read_some(const Fd& fd) {
  char buffer[4096];
  const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
  return {buffer, count > 0 ? static_cast<size_t>(count) : 0};
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != text.npos;
}

TEST_CASE("on a terminal the display moves, and leaves a clean line") {
  Pty pty;
  Display display({.fd = pty.slave.get(), .moving = true});
  display.event(start_event());
  std::string text = pty.read([](const std::string& t) { return has(t, "starting 1 replica"); });
  display.event(step_event(1));
  text += pty.read([](const std::string& t) { return has(t, "loss 0.25"); });
  display.event(rescale_event());
  text += pty.read([](const std::string& t) { return has(t, "paused") && has(t, "epoch 1/1"); });
  display.finish();
  text += pty.read([](const std::string& t) { return has(t, "\x1b[1A\x1b[K"); });
  CHECK(has(text, "training p with 1 replica\r\n"));
  CHECK(has(text, "replicas 1 -> 2; paused 0.500 s\r\n"));
  // The last thing is that both lines of the display are erased.
  CHECK(text.ends_with("\r\x1b[K\x1b[1A\x1b[K"));
}

TEST_CASE("elsewhere there are plain lines without control characters") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  Display display({.fd = writing.get()});
  display.event(start_event());
  display.event(step_event(1));
  display.event({{"event", "epoch"}, {"time_s", 10.5}, {"epoch", 1}, {"loss", 0.5}});
  display.event(rescale_event());
  display.talk("a word");
  CHECK(display.finish().training);
  writing.reset();
  char buffer[4096];
  const ssize_t count = ::read(reading.get(), buffer, sizeof buffer);
  REQUIRE(count > 0);
  CHECK(std::string(buffer, static_cast<size_t>(count)) ==
        "     0.0 s  training p with 1 replica\n"
        "    10.5 s  epoch 1/1, 50 %, loss 0.25\n"
        "     1.0 s  replicas 1 -> 2; paused 0.500 s\n"
        "a word\n");
}

TEST_CASE("a terminal that takes nothing holds nobody up") {
  Pty pty;
  REQUIRE(tcflow(pty.slave.get(), TCOOFF) == 0);  // Ctrl-S
  const Fd taker = open_file("/dev/null", O_WRONLY);
  const auto finish_s = [&] {
    const double free_s = show_much(taker.get()).events_s;  // more on a busy machine
    const Shown shown = show_much(pty.slave.get());
    CHECK(shown.events_s < std::max(5.0, 5 * free_s));
    return shown.finish_s;
  };
  CHECK(adaptdl::testing::least_of_three(3.0, finish_s) < 3.0);
  tcflow(pty.slave.get(), TCOON);
}

TEST_CASE("a reader that went away holds nobody up") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd writing(ends[1]);
  ::close(ends[0]);
  const auto old = std::signal(SIGPIPE, SIG_IGN);  // as main does
  Display display({.fd = writing.get()});
  for (int i = 0; i < 100; ++i) display.talk("gone");
  display.finish();
  std::signal(SIGPIPE, old);
}

TEST_CASE("what is told after the end is shown, too") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  Display display({.fd = writing.get()});
  display.talk("before");
  display.finish();
  display.talk("after");
  CHECK(read_some(reading) == "before\nafter\n");
  Display quiet({.fd = writing.get(), .quiet = true});
  quiet.finish();
  quiet.talk("nothing");
  display.talk("more");
  CHECK(read_some(reading) == "more\n");
}

TEST_CASE("a disk that is full for a while costs only some lines") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd reading(ends[0]), writing(ends[1]);
  const Fd target = open_file("/dev/full", O_WRONLY);
  Display display({.fd = target.get()});
  display.talk("lost");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // for the thread to try
  REQUIRE(dup3(writing.get(), target.get(), O_CLOEXEC) == target.get());
  display.talk("kept");
  display.finish();
  const std::string text = read_some(reading);
  INFO(text);
  const bool tried = text == "(1 line left out)\nkept\n";
  CHECK((tried || text == "lost\nkept\n"));  // the latter on a busy machine
}

TEST_CASE("a summary that cannot be printed is no exception") {
  const Fd full = open_file("/dev/full", O_WRONLY);
  const Fd own(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  REQUIRE(dup2(full.get(), STDOUT_FILENO) == STDOUT_FILENO);
  const bool printed = print_at_end("summary\n");
  REQUIRE(dup2(own.get(), STDOUT_FILENO) == STDOUT_FILENO);
  CHECK_FALSE(printed);
  CHECK(print_at_end(""));
}

TEST_CASE("quiet shows nothing but knows all") {
  Pty pty;
  Display display({.fd = pty.slave.get(), .moving = true, .quiet = true});
  display.event(start_event());
  display.event(step_event(7));
  CHECK(display.finish().step == 7);
  pollfd ready{.fd = pty.master.get(), .events = POLLIN, .revents = 0};
  CHECK(poll(&ready, 1, 50) == 0);
}

}  // namespace
}  // namespace adaptdl::cli
