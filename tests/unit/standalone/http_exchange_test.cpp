#include "runtime/standalone/http_exchange.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/error.h"
#include "core/net/socket.h"
#include "runtime/comm/cpu/link.h"
#include "runtime/standalone/resolve.h"

using namespace adaptdl;
using namespace adaptdl::standalone;

TEST_CASE("where a supervisor is") {
  const HttpBase usual = parse_http_base("http://sched.example:8080/j/token/", "URL");
  CHECK(usual.host == "sched.example");
  CHECK(usual.port == 8080);
  CHECK(usual.path == "/j/token");
  const HttpBase six = parse_http_base("http://[::1]", "URL");
  CHECK(six.host == "::1");
  CHECK(six.port == 80);
  CHECK(six.path.empty());
  for (const char* wrong : {"https://a", "a:80", "http://", "http://:80", "http://a:0",
                            "http://a:x", "http://[::1", "http://a/b c", "http://a\r\nX: y"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_http_base(wrong, "URL"), Error);
  }
}

TEST_CASE("an answer is complete or none") {
  const auto answer = parse_http_answer(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-LENGTH: \t2 \r\n\r\n[]more");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(answer->body == "[]");
  CHECK(parse_http_answer("HTTP/1.0 408 \r\n\r\nuntil the end")->body == "until the end");
  CHECK(parse_http_answer("HTTP/1.0 204\r\n\r\n")->status == 204);
  for (const char* wrong :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n"}) {
    CAPTURE(wrong);
    CHECK(!parse_http_answer(wrong));
  }
}

TEST_CASE("an exchange on a connection of its own") {
  TcpAddress address{"127.0.0.1", 0, ""};
  const Fd listener = listen_tcp(address);
  HttpBase base{"127.0.0.1", "/j/token", address.port};
  std::string asked;
  std::thread server([&] {
    for (const bool answers : {true, false}) {
      REQUIRE(
          comm::Patience{Monotonic::now() + std::chrono::seconds(10)}.wait(listener.get(), POLLIN));
      const Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::byte bytes[1000];
      const auto got = recv_some(client.get(), bytes);
      if (!answers) return;
      asked.assign(reinterpret_cast<const char*>(bytes), got.value_or(0));
      CHECK(send_all(client.get(), "HTTP/1.1 200 OK\r\n\r\n"));
    }
  });
  const auto soon = [] { return Monotonic::now() + std::chrono::seconds(10); };
  CHECK(http_exchange(base, "PUT", "/hints/a/b", "{}", soon()).status == 200);
  CHECK(asked.starts_with("PUT /j/token/hints/a/b HTTP/1.0\r\n"));
  CHECK(asked.ends_with("Content-Length: 2\r\n\r\n{}"));
  try {
    http_exchange(base, "GET", "/discover/a/b/0", "", soon());
    FAIL("it closed the connection");
  } catch (const Error& error) {
    const std::string said = error.what();
    CHECK(said.find("GET http://127.0.0.1:") == 0);
    CHECK(said.find("token") == std::string::npos);
  }
  server.join();
  // Nobody accepts now: the deadline and a cancellation end it.
  CHECK_THROWS_AS(
      http_exchange(base, "GET", "/", "", Monotonic::now() + std::chrono::milliseconds(50)), Error);
  Cancellation cancelled;
  cancelled.cancel();
  CHECK_THROWS_AS(http_exchange(base, "GET", "/", "", soon(), &cancelled), Error);
}
