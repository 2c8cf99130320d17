#include "core/launch/io/control.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/launch/client.h"
#include "core/net/socket.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace {

constexpr size_t kLimit = 1u << 20;

// The answer of a server that takes so long requests.
json ask(const json& request) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("s");
  const auto size_of = [](const json& asked) {
    return json{{"size", asked["text"].get_ref<const std::string&>().size()}};
  };
  ControlServer server(path, size_of, kLimit);
  const std::jthread serving([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> waits;
      server.add_waits(waits);
      poll_until(waits, Monotonic::now() + std::chrono::milliseconds(20));
      server.serve();
    }
  });
  return request_at(path, request, Seconds(20), "it");
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
