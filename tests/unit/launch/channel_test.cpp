#include <doctest/doctest.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "core/launch/io/protocol.h"
#include "core/net/socket.h"

using namespace adaptdl;
using adaptdl::launch::Channel;
using nlohmann::json;

namespace {

void put(int fd, const std::string& bytes) {
  REQUIRE(send_all(fd, bytes));
}

std::string header(uint32_t size) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(size >> (8 * i) & 0xff);
  return bytes;
}

}  // namespace

TEST_CASE("channel: messages arrive whole and in order, byte by byte or all at once") {
  auto [a, b] = socket_pair();
  Channel receiver(std::move(b));
  const std::string text = R"({"type":"hello","pid":7})";
  const std::string frame = header(static_cast<uint32_t>(text.size())) + text;
  std::vector<json> messages;
  const auto collect = [&](json message) { messages.push_back(std::move(message)); };
  for (size_t i = 0; i < frame.size(); ++i) {
    put(a.get(), frame.substr(i, 1));
    CHECK(receiver.drain(collect));
    CHECK(messages.size() == (i + 1 == frame.size() ? 1u : 0u));
  }
  put(a.get(), frame + frame + frame.substr(0, 6));
  CHECK(receiver.drain(collect));
  CHECK(messages.size() == 3);
  CHECK(messages[2]["pid"] == 7);
  a.reset();
  CHECK_FALSE(receiver.drain(collect));  // the half frame was cut off by a death
  CHECK(messages.size() == 3);
}

TEST_CASE("channel: what a dead peer had sent is still received") {
  auto [a, b] = socket_pair();
  {
    Channel sender(std::move(a));
    for (int i = 0; i < 100; ++i) REQUIRE(sender.send({{"type", "event"}, {"step", i}}));
  }
  Channel receiver(std::move(b));
  for (int i = 0; i < 100; ++i) CHECK((*receiver.receive())["step"] == i);
  CHECK_FALSE(receiver.receive());
  CHECK_FALSE(receiver.send({{"type", "stop"}}));
}

TEST_CASE("channel: large messages block, posted ones wait") {
  auto [a, b] = socket_pair();
  Channel left(std::move(a)), right(std::move(b));
  const json big = {{"type", "generation"}, {"text", std::string(4 << 20, 'x')}};
  REQUIRE(left.post(big));
  CHECK(left.wants_write());
  std::thread writer([&] {
    CHECK(left.send({{"type", "last"}}));
    CHECK_FALSE(left.wants_write());
  });
  CHECK(*right.receive() == big);
  CHECK((*right.receive())["type"] == "last");
  writer.join();
  // A peer that never reads does not take all memory.
  bool accepted = true;
  for (int i = 0; i < 40 && accepted; ++i) accepted = left.post(big);
  CHECK_FALSE(accepted);
  // Nor does it come back: a loop that asks only flush(), or only drain(), notices, too.
  CHECK_FALSE(left.flush());
  CHECK_FALSE(left.post({{"type", "more"}}));
  CHECK_FALSE(left.wants_write());
  CHECK_FALSE(left.drain([](const json&) {}));
  while (right.receive()) {
  }
}

TEST_CASE("channel: bytes that are not UTF-8 are replaced") {
  auto [a, b] = socket_pair();
  Channel left(std::move(a)), right(std::move(b));
  REQUIRE(left.send({{"type", "fatal"}, {"message", "bad \xff name"}}));
  CHECK((*right.receive())["message"] == "bad \xef\xbf\xbd name");
}

TEST_CASE("channel: nonsense is an Error") {
  const auto receive = [](const std::string& bytes) {
    auto [a, b] = socket_pair();
    put(a.get(), bytes);
    a.reset();
    Channel channel(std::move(b));
    channel.receive();
  };
  CHECK_THROWS_AS(receive(header(launch::kMaxFrame + 1)), Error);
  CHECK_THROWS_AS(receive("GET / HTTP/1.1\r\n"), Error);
  CHECK_THROWS_AS(receive(header(2) + "[]"), Error);
  CHECK_THROWS_AS(receive(header(2) + "{}"), Error);
  CHECK_THROWS_AS(receive(header(10) + R"({"type":1})"), Error);
  CHECK_THROWS_AS(receive(header(3) + "{\"t"), Error);
  CHECK_THROWS_AS(receive(header(0)), Error);
  CHECK_NOTHROW(receive(header(5) + "{"));
  auto [a, b] = socket_pair();
  Channel channel(std::move(a));
  CHECK_THROWS_AS(channel.send({{"type", "x"}, {"text", std::string(launch::kMaxFrame, 'x')}}),
                  Error);
}

TEST_CASE("channel: a message that is nested too deeply is an Error, and no end of the process") {
  const auto nested = [](size_t depth) {
    return R"({"type":"x","x":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  const auto receive = [](const std::string& text) {
    auto [a, b] = socket_pair();
    std::thread sender([&, to = std::move(a)] {
      send_all(to.get(), header(static_cast<uint32_t>(text.size())) + text);
    });
    Channel channel(std::move(b));
    try {
      const auto message = channel.receive();
      sender.join();
      return message->dump();
    } catch (const Error&) {
      sender.join();
      throw;
    }
  };
  CHECK(receive(nested(launch::kMaxFrameDepth)) == nested(launch::kMaxFrameDepth));
  CHECK_THROWS_WITH_AS(receive(nested(launch::kMaxFrameDepth + 1)),
                       doctest::Contains("nested more than"), Error);
  CHECK_THROWS_AS(receive(nested(1'000'000)), Error);

  // What passes a message on within its own refuses one that its receiver would refuse.
  auto [a, b] = socket_pair();
  Channel channel(std::move(a)), other(std::move(b));
  const json deepest = json::parse(nested(launch::kMaxFrameDepth));
  CHECK_THROWS_AS(channel.send({{"type", "say"}, {"message", deepest}}), Error);
  CHECK(channel.send(deepest));
  CHECK(other.receive() == deepest);
}
