#include "core/launch/io/output_queue.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <future>
#include <nlohmann/json.hpp>

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace output_queue_test {

using Words = std::vector<std::string>;

// A queue for 4 entries, whose sink takes nothing after the first event until it is let go.
struct HeldUp {
  HeldUp() {
    put("start", 0);
    entered.get_future().wait();
  }

  void put(const char* kind, int number) {
    queue.event({{"event", kind}, {"number", number}, {"time_s", number}});
  }

  // All that the sink got after the first event; then it takes no more.
  Words all() {
    go.set_value();
    CHECK(queue.drain(Monotonic::now() + std::chrono::seconds(60)));
    return got;
  }

  void take(const json& event) {
    const std::string kind = event["event"];
    if (kind == "start") {
      entered.set_value();
      go.get_future().wait();
    } else if (kind == "dropped") {
      got.push_back(
          fmt::format("dropped {} at {}", event["events"].get<int>(), event["time_s"].get<int>()));
    } else {
      got.push_back(fmt::format("{} {}", kind, event["number"].get<int>()));
    }
  }

  std::promise<void> entered, go;
  Words got;
  OutputQueue queue{{[this](const json& event) { take(event); }}, {}, 4};
};

TEST_CASE("output queue: only steps are dropped, and what is missing is said where it is missing") {
  HeldUp held;
  for (int step = 1; step <= 10; ++step) {
    held.put("step", step);
    if (step == 4 || step == 8) held.put("epoch", step);
  }
  // The oldest go: 1 to 4 before the first epoch, 5 to 8 before the second.
  CHECK(held.all() ==
        Words{"dropped 4 at 4", "epoch 4", "dropped 4 at 8", "epoch 8", "step 9", "step 10"});
  CHECK(held.queue.dropped() == 8);
}

TEST_CASE("output queue: a dropped event that was the newest is said before what follows it") {
  HeldUp held;
  for (int epoch = 1; epoch <= 4; ++epoch) held.put("epoch", epoch);
  held.put("step", 5);  // the only one that may go
  held.put("gpu", 6);   // and this
  CHECK(held.queue.dropped() == 2);
  held.put("epoch", 7);
  CHECK(held.all() ==
        Words{"epoch 1", "epoch 2", "epoch 3", "epoch 4", "dropped 2 at 7", "epoch 7"});
}

TEST_CASE("output queue: far beyond its capacity anything is dropped, the oldest first") {
  HeldUp held;
  for (int epoch = 1; epoch <= 16 * 4 + 3; ++epoch) held.put("epoch", epoch);
  const Words got = held.all();
  REQUIRE(got.size() == 1 + 16 * 4);
  CHECK(got[0] == "dropped 3 at 4");
  CHECK(got[1] == "epoch 4");
  CHECK(got.back() == "epoch 67");
}

}  // namespace output_queue_test
