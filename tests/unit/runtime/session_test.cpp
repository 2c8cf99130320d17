#include "runtime/session/session.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <future>
#include <signal.h>
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

using Handler = void (*)(int);

Handler handler_of(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action.sa_handler;
}

bool blocks(int number) {
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, nullptr, &set);
  return sigismember(&set, number) == 1;
}

TEST_CASE("signals do after a session what they did before") {
  const int numbers[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGUSR1};
  const bool blocked = blocks(SIGTERM);
  std::vector<Handler> before;
  for (const int number : numbers) before.push_back(handler_of(number));
  const auto same = [&] {
    for (size_t i = 0; i < before.size(); ++i) CHECK((handler_of(numbers[i]) == before[i]));
  };
  {
    const Fd launcher = control_channel();
    write_whole(launcher, frame(kWelcome));
    Session session;
    CHECK((handler_of(SIGINT) == SIG_IGN));
    CHECK(blocks(SIGTERM));
    raise(SIGTERM);  // it stays with the training
  }
  same();
  CHECK(blocks(SIGTERM) == blocked);
  {
    Session session;
    REQUIRE(session.alone());
    session.stop_on_signals();
    CHECK((handler_of(SIGINT) != before[0]));
    raise(SIGTERM);
    CHECK(session.stop_requested() == StopMode::checkpoint);
    session.farewell();
    same();
  }
  same();
  {
    Session session;
    session.stop_on_signals();
  }
  same();
}

}  // namespace
}  // namespace adaptdl
