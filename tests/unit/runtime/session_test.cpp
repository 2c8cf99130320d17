#include "runtime/session/session.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <future>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/crypto.h"

namespace adaptdl {
namespace {

using nlohmann::json;

json generation(uint64_t number) {
  return {{"type", "generation"}, {"generation", number},
          {"immediate", true},    {"members", {{{"member", 7}, {"endpoint", json::object()}}}},
          {"cause", "death"},     {"threads", 1}};
}

std::string frame(const json& message) {
  const std::string text = message.dump();
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return bytes + text;
}

// A launcher's end of the control channel; the other is in the environment of the next Session.
Fd control_channel() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  setenv(launch::kControlFdVariable, std::to_string(ends[1]).c_str(), 1);
  return Fd(ends[0]);
}

void write_whole(const Fd& socket, const std::string& bytes) {
  REQUIRE(write(socket.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

const json kWelcome = {{"type", "welcome"},
                       {"protocol", launch::kProtocol},
                       {"member", 7},
                       {"settings", json::object()},
                       {"secret", std::string(64, '0')}};

// Ends the test program, instead of never, when what it waits for does not come.
void in_time(const std::function<void()>& work) {
  auto done = std::async(std::launch::async, work);
  if (done.wait_for(std::chrono::seconds(20)) == std::future_status::ready) return done.get();
  MESSAGE("a message was not taken");
  std::abort();
}

TEST_CASE("a generation that comes with the welcome is taken") {
  const Fd launcher = control_channel();
  write_whole(launcher, frame(kWelcome) + frame(generation(1)));
  Session session;
  session.announce(json::object());
  in_time([&] { CHECK(session.await_next()); });
  CHECK(session.generation() == 1);
}

TEST_CASE("of two generations that come at once the newer one is taken, without a third message") {
  const Fd launcher = control_channel();
  write_whole(launcher, frame(kWelcome));
  Session session;
  session.announce(json::object());
  write_whole(launcher, frame(generation(5)) + frame(generation(6)));
  in_time([&] {
    while (session.generation() < 6) CHECK(session.await_next());
  });
  CHECK(session.generation() == 6);
}

TEST_CASE("the launcher tells the kinds of accelerators by rank; an older one tells none") {
  const Fd launcher = control_channel();
  write_whole(launcher, frame(kWelcome));
  Session session;
  session.set_accelerator("T4");
  CHECK(session.accelerators() == std::vector<std::string>{"T4"});
  session.announce(json::object());
  json told = generation(1);
  told["members"][0]["accelerator"] = "A100";
  write_whole(launcher, frame(told));
  in_time([&] { CHECK(session.await_next()); });
  CHECK(session.accelerators() == std::vector<std::string>{"A100"});
  write_whole(launcher, frame(generation(2)));
  in_time([&] { CHECK(session.await_next()); });
  CHECK(session.accelerators() == std::vector<std::string>{""});
}

}  // namespace
}  // namespace adaptdl
