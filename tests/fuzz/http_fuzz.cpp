#include <algorithm>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/net/http_request_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

constexpr size_t kLimit = 4096;

// All that a connection with these bytes is taken for.
struct Read {
  std::string requests;
  int refusal = 0;  // 0: none
};
Read read_all(std::string_view bytes, size_t piece) {
  HttpRequestReader reader(kLimit, 64);
  std::string result;
  while (!bytes.empty()) {
    reader.add(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    reader.take_expectation();
    while (reader.state() == HttpRequestReader::State::whole) {
      const auto [request, keep_alive] = reader.take();
      ADAPTDL_CHECK(request.path.starts_with('/'));
      ADAPTDL_CHECK(request.body.size() <= 64);
      result += fmt::format("{} {} {} {} {}\n", request.method, request.path, request.query,
                            request.body, keep_alive);
      for (const auto& [name, value] : request.headers) {
        ADAPTDL_CHECK(value.find_first_of("\r\n") == std::string::npos);
        result += name + value;
      }
    }
    ADAPTDL_CHECK(reader.waiting_bytes() <= kLimit + piece);
  }
  const bool refused = reader.state() == HttpRequestReader::State::refused;
  return {result, refused ? reader.refusal().status : 0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz_text(data, size);
  const Read whole = read_all(bytes, std::max<size_t>(size, 1));
  const Read pieces = read_all(bytes, 1);
  if (size > kLimit) return 0;  // what of a too long head is found first depends on the pieces
  ADAPTDL_CHECK(whole.requests == pieces.requests);
  // Which fault of a body is found first depends on the pieces, too: a wrong chunk, or too many.
  const auto of_the_body = [](int status) { return status == 400 || status == 413; };
  ADAPTDL_CHECK(whole.refusal == pieces.refusal || whole.refusal == 0 || pieces.refusal == 0 ||
                (of_the_body(whole.refusal) && of_the_body(pieces.refusal)));
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {"GET /discover/a/b/0?timeout=5 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
       "PUT /hints/a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.0\r\n\r\n",
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: "
       "100-continue\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: u\r\n\r\n"},
      {"\r\n", "\r\n\r\n", "Host: a\r\n", "Content-Length: ", "Transfer-Encoding: chunked\r\n",
       "Connection: close\r\n", "Expect: 100-continue\r\n", "0\r\n\r\n", "http://", "?",
       " HTTP/1.1\r\n", "\t", ";", "ffffffffffffffff"}};
}
