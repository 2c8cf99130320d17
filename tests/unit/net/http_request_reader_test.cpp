#include "core/net/http_request_reader.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace adaptdl {
namespace {

using State = HttpRequestReader::State;

// What a reader with small limits makes of the bytes, in pieces of `size`: the requests, then the
// status of the refusal.
std::string read_all(std::string_view bytes, size_t size) {
  HttpRequestReader reader(200, 50);
  std::string result;
  while (!bytes.empty()) {
    reader.add(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    while (reader.state() == State::whole) {
      const auto [request, keep_alive] = reader.take();
      result += fmt::format("{} {} ({}) [{}]{}; ", request.method, request.path, request.query,
                            request.body, keep_alive ? "" : " close");
    }
  }
  if (reader.state() == State::refused) return result + std::to_string(reader.refusal().status);
  return result + (reader.state() == State::empty ? "end" : "cut off");
}

struct Case {
  std::string bytes, expected;
};

}  // namespace

TEST_CASE("requests come out of bytes in whatever pieces") {
  const std::string host = " HTTP/1.1\r\nHost: a\r\n";
  const std::string chunked = host + "Transfer-Encoding: chunked\r\n\r\n";
  const std::vector<Case> cases = {
      {"GET /a/b?c=d&e=%20" + host + "\r\n", "GET /a/b (c=d&e=%20) []; end"},
      {"GET http://x:80/a?b" + host + "\r\n", "GET /a (b) []; end"},
      {"GET http://x" + host + "\r\n", "GET / () []; end"},
      {"GET / HTTP/1.0\r\n\r\n", "GET / () [] close; end"},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / () []; end"},
      {"GET /" + host + "Connection: close\r\n\r\n", "GET / () [] close; end"},
      {"PUT /a" + host + "Content-Length: 3\r\n\r\nxyzGET /b" + host + "\r\n",
       "PUT /a () [xyz]; GET /b () []; end"},
      {"\r\n\r\nGET /" + host + "\r\n\r\n\r\n", "GET / () []; end"},
      {"POST /" + chunked + "3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: u\r\n\r\nGET /" + host,
       "POST / () [abc0123456789]; cut off"},
      {"POST /" + chunked + "0\r\n\r\nGET /" + host + "\r\n", "POST / () []; GET / () []; end"},
      {"PUT /" + host + "Content-Length: 5\r\n\r\nab", "cut off"},
      {"POST /" + chunked + "0\r\n\r\nGET /" + host + "\r\n", "POST / () []; GET / () []; end"},
      {"PUT /" + host + "Content-Length: 51\r\n\r\n", "413"},
      {"PUT /" + chunked + "33\r\n" + std::string(0x33, 'x'), "413"},
      {"PUT /" + chunked + "20\r\n" + std::string(32, 'x') + "\r\n20\r\n" + std::string(32, 'x'),
       "413"},
      {"GET /" + host + "A: " + std::string(200, 'x') + "\r\n\r\n", "431"},
      {"GET /" + std::string(300, 'x'), "431"},
      {"PUT /" + chunked + "1;" + std::string(300, 'x'), "431"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET /" + host + "Host: b\r\n\r\n", "400"},
      {"GET *" + host + "\r\n", "400"},
      {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505"},
      {"hello\r\n\r\n", "400"},
      {"PUT /" + host + "Content-Length: -1\r\n\r\n", "400"},
      {"PUT /" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {std::string("\x16\x03\x01\x02\x00\x01\x00", 7) + "\r\n\r\n", "400"},  // TLS to a plain port
  };
  for (const auto& [sent, expected] : cases) {
    const std::string& bytes = sent;
    CAPTURE(bytes);
    for (const size_t size : {size_t(1), size_t(7), bytes.size()}) {
      CAPTURE(size);
      CHECK(read_all(bytes, size) == expected);
    }
  }
}

TEST_CASE("who waits for 100 Continue is found once, and only while the body is missing") {
  const std::string head =
      "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n";
  HttpRequestReader reader(1000, 1000);
  reader.add(head.substr(0, 20));
  CHECK_FALSE(reader.take_expectation());
  reader.add(head.substr(20));
  CHECK(reader.take_expectation());
  CHECK_FALSE(reader.take_expectation());
  reader.add("a");
  CHECK_FALSE(reader.take_expectation());
  REQUIRE(reader.add("b") == State::whole);
  CHECK(reader.take().request.body == "ab");
  REQUIRE(reader.add(head + "ab") == State::whole);
  CHECK_FALSE(reader.take_expectation());
  CHECK(reader.take().request.header("expect") == "100-Continue");
}

TEST_CASE("what follows a chunked body is no header") {
  HttpRequestReader reader(1000, 1000);
  reader.add(
      "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Mine: 1\r\n\r\n"
      "0\r\nHost: b\r\nX-Theirs: 2\r\n\r\n");
  REQUIRE(reader.state() == State::whole);
  const HttpServerRequest request = reader.take().request;
  CHECK(request.headers.size() == 3);
  CHECK(request.header("x-mine") == "1");
  CHECK_FALSE(request.header("x-theirs"));
}

TEST_CASE("parameters of a query") {
  const HttpServerRequest request{.query = "a=1&b&c=x=y&a=2&timeout=5"};
  CHECK(request.parameter("a") == "1");
  CHECK(request.parameter("b") == "");
  CHECK(request.parameter("c") == "x=y");
  CHECK(request.parameter("timeout") == "5");
  CHECK_FALSE(request.parameter("time"));
  CHECK_FALSE(HttpServerRequest().parameter(""));
}

}  // namespace adaptdl
