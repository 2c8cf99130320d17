#include "core/launch/io/control.h"

#include <atomic>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <thread>

#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/formats/json.h"
#include "core/launch/client.h"
#include "core/net/socket.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace {

constexpr size_t kLimit = 1u << 20;

// A server in a loop of its own, which tells how long a text is.
class Served {
 public:
  explicit Served(const std::string& path)
      : server_(
            path,
            [](const json& asked) {
              return json{{"size", json_get<std::string>(asked, "text", "request").size()}};
            },
            kLimit) {}

 private:
  ControlServer server_;
  const std::jthread serving_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> waits;
      server_.add_waits(waits);
      poll_until(waits, Monotonic::now() + std::chrono::milliseconds(20));
      server_.serve();
    }
  }};
};

json ask_at(const std::string& path, const std::string& text) {
  return request_at(path, {{"text", text}}, Seconds(20), "it");
}

json ask(const json& request) {
  const TemporaryDirectory folder;
  const Served served(folder.file("s"));
  return request_at(folder.file("s"), request, Seconds(20), "it");
}

Fd connected_to(const std::string& path) {
  auto socket = try_connect_unix(path);
  REQUIRE(socket);
  return std::move(*socket);
}

// What a client is told that sends these bytes.
std::string told(const std::string& path, const std::string& bytes) {
  const Fd socket = connected_to(path);
  REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  ::shutdown(socket.get(), SHUT_WR);
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = ::recv(socket.get(), chunk, sizeof chunk, 0)) > 0;) {
    text.append(chunk, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("control: a request may be as long as the server takes") {
  const size_t around = json{{"text", ""}}.dump().size();
  const auto with = [&](size_t size) { return json{{"text", std::string(size - around, 'x')}}; };
  CHECK(ask(with(100))["size"] == 100 - around);
  CHECK(ask(with(kLimit))["size"] == kLimit - around);
  CHECK_ERROR(ask(with(kLimit + 1)), "longer than 1024 KiB");
  CHECK_ERROR(ask(with(3 * kLimit)), "longer than 1024 KiB");
}

TEST_CASE("control: a request that is none is refused, and the next client is answered") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("s");
  const Served served(path);
  const std::string deep(200, '[');
  for (const std::string& bytes : {std::string("nonsense"), std::string("[1]"), std::string("{}"),
                                   std::string(R"({"text":7})"), std::string("\xff\xfe"), deep}) {
    CAPTURE(bytes);
    const json answer = json::parse(told(path, bytes + "\n"));
    CHECK(answer["ok"] == false);
    CHECK(answer["error"].is_string());
  }
  CHECK(told(path, R"({"text":"cut o)").empty());  // and gone
  CHECK(ask_at(path, "abc")["size"] == 3);
}

TEST_CASE("control: clients that say nothing leave, and others are answered then") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("s");
  const Served served(path);
  std::vector<Fd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected_to(path));
  std::atomic<int> size = 0;
  std::jthread client([&] { size = ask_at(path, "abc")["size"].get<int>(); });
  silent.clear();
  client.join();
  CHECK(size == 3);
}

TEST_CASE("control: the socket of the living is left alone, that of the dead is taken over") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("s");
  { const Fd dead = listen_unix(path); }
  REQUIRE(path_exists(path));
  {
    const Served served(path);
    CHECK_ERROR(ControlServer(path, [](const json&) { return json(); }), "is live");
    CHECK(ask_at(path, "abc")["size"] == 3);
    CHECK_FALSE(lock_control_socket(path));
  }
  CHECK_FALSE(path_exists(path));
  CHECK(lock_control_socket(path));
}
