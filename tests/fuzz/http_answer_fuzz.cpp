// A supervisor's address, and its answers.

#include "core/base/error.h"
#include "runtime/standalone/http_exchange.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::standalone;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  if (const auto answer = parse_http_answer(text)) {
    ADAPTDL_CHECK(answer->status >= 100 && answer->status <= 999);
    ADAPTDL_CHECK(text.find(answer->body) != std::string_view::npos);
  }
  try {
    const HttpBase base = parse_http_base(text, "URL");
    ADAPTDL_CHECK(!base.host.empty() && base.port >= 1 && base.port <= 65535);
    ADAPTDL_CHECK(base.path.find_first_of("\r\n ") == std::string::npos);
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]",
       "HTTP/1.0 408 Request Timeout\r\n\r\nlater", "http://host:8080/j/token", "http://[::1]:80/"},
      {"HTTP/1.", "\r\n\r\n", "Content-Length: ", "Transfer-Encoding: chunked", "http://", "]:"}};
}
