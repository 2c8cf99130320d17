#include "runtime/session/report/gpu_sender.h"

#include <atomic>
#include <doctest/doctest.h>
#include <mutex>
#include <vector>

#include "tests/support/least_of_three.h"
#include "tests/support/soon.h"

using namespace adaptdl;
using adaptdl::testing::soon;
using nlohmann::json;

namespace {

struct Told {
  std::mutex mutex;
  std::vector<json> messages;

  GpuSender::Send send() {
    return [this](const json& message) {
      const std::lock_guard lock(mutex);
      messages.push_back(message);
    };
  }
  size_t size() {
    const std::lock_guard lock(mutex);
    return messages.size();
  }
};

}  // namespace

TEST_CASE("a replica tells what its GPU does until it leaves") {
  Told told;
  {
    const GpuSender sender("GPU-11111111-aaaa", told.send(), ADAPTDL_FAKE_NVML, Seconds(0.01));
    CHECK(soon([&] { return told.size() >= 3; }));
  }
  const json whole = {{"type", "gpu"},
                      {"id", "GPU-11111111-aaaa"},
                      {"name", "NVIDIA H200"},
                      {"busy_percent", 87},
                      {"memory_bytes", 150ull << 30},
                      {"memory_used_bytes", 34ull << 30},
                      {"temperature_c", 61},
                      {"power_w", 512.3}};
  for (const json& message : told.messages) CHECK(message == whole);
}

TEST_CASE("of a part of a GPU the whole one's are told, and null for what it does not tell") {
  Told told;
  const GpuSender sender("MIG-2", told.send(), ADAPTDL_FAKE_NVML, Seconds(0.01));
  REQUIRE(soon([&] { return told.size() >= 1; }));
  const std::lock_guard lock(told.mutex);
  CHECK(told.messages[0]["id"] == "GPU-22222222-bbbb");
  CHECK(told.messages[0]["busy_percent"] == 3);
  CHECK(told.messages[0]["power_w"].is_null());
}

TEST_CASE("nothing is told of an unknown GPU, or without the driver's library") {
  Told told;
  {
    const GpuSender unknown("GPU-3", told.send(), ADAPTDL_FAKE_NVML, Seconds(0.001));
    const GpuSender alone("GPU-1", told.send(), "libadaptdl-none.so.1", Seconds(0.001));
    std::this_thread::sleep_for(Seconds(0.05));
  }
  CHECK(told.size() == 0);
}

TEST_CASE("a replica leaves at once, whatever the interval") {
  const auto seconds = [] {
    const TimePoint begun = Monotonic::now();
    {
      const GpuSender sender(
          "GPU-11111111-aaaa", [](const json&) {}, ADAPTDL_FAKE_NVML);
    }
    return seconds_since(begun);
  };
  CHECK(adaptdl::testing::least_of_three(2, seconds) < 2);
}
