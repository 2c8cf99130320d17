#include "cli/show/display.h"

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

#include "core/base/clock.h"
#include "core/base/fd.h"

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
  const TimePoint start = Monotonic::now();
  Display display({.fd = pty.slave.get(), .moving = true});
  display.event(start_event());
  for (int i = 0; i < 20000; ++i) {
    display.event(step_event(i));
    if (i % 10 == 0) display.talk("a line that nobody reads");
  }
  CHECK(seconds_since(start) < 5.0);
  const TimePoint before_finish = Monotonic::now();
  display.finish();
  CHECK(seconds_since(before_finish) < 3.0);
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
