#include "core/kube/throttle.h"

#include <atomic>
#include <doctest/doctest.h>
#include <mutex>
#include <thread>
#include <vector>

#include "core/kube/client.h"
#include "tests/support/soon.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::kube {
namespace {

TimePoint at(double seconds) {
  return TimePoint{} + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

const Resource kThrottledMaps = kConfigMaps.in("default"),
               kThrottledMap = kConfigMaps.in("default", "a");

FakeApi& with_map(FakeApi& api) {
  api.put(kThrottledMaps,
          {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "a"}}}});
  return api;
}

}  // namespace

TEST_CASE("a pause lasts as long as the longest that the server requested") {
  Throttle throttle(0, 1);
  CHECK(throttle.pause(at(1)) == Seconds(0));
  throttle.refused(Seconds(7), at(1));
  throttle.refused(Seconds(2), at(2));
  CHECK(throttle.pause(at(3)) == Seconds(5));
  CHECK(throttle.pause(at(8)) == Seconds(0));
  throttle.refused(Seconds(0), at(10));
  CHECK(throttle.pause(at(10)) == Throttle::kUsualPause);
  throttle.refused(Seconds(1e9), at(20));
  CHECK(throttle.pause(at(20)) == Throttle::kLongestPause);
  for (int i = 0; i < 100; ++i) CHECK(throttle.reserve(at(20)) == Seconds(0));
}

TEST_CASE("requests of all threads together keep the rate") {
  FakeApi api;
  with_map(api);
  Client client(api.config(), {.qps = 20, .burst = 5});
  const TimePoint start = Monotonic::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) client.get(kThrottledMap);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(seconds_since(start) >= 0.74);  // 20 requests, of which 5 at once
  Cancellation cancel;
  Client cancelled(api.config(), {.qps = 0.001, .cancel = &cancel});
  cancelled.get(kThrottledMap);
  std::thread canceller([&] { cancel.cancel(); });
  CHECK_THROWS_AS(cancelled.get(kThrottledMap), Cancelled);
  canceller.join();
}

TEST_CASE("after a 429 no thread sends anything before the server's time") {
  FakeApi api;
  with_map(api);
  Client client(api.config());
  client.get(kThrottledMap);
  std::atomic<bool> refuses = true;
  std::string pause = "3";
  std::mutex mutex;
  TimePoint refused_at;
  std::vector<TimePoint> sent;
  api.set_fault([&](const HttpServerRequest&) -> std::optional<HttpResponse> {
    const std::lock_guard lock(mutex);
    if (!refuses.exchange(false)) {
      sent.push_back(Monotonic::now());
      return std::nullopt;
    }
    refused_at = Monotonic::now();
    return status_response(429, "TooManyRequests", "too many requests", {{"Retry-After", pause}});
  });
  const int before = api.requests();
  std::thread first([&] { client.get(kThrottledMap); });
  CHECK(adaptdl::testing::soon([&] { return client.pause() > Seconds(0); }));
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back([&] { client.get(kThrottledMap); });
  for (std::thread& other : others) other.join();
  first.join();
  CHECK(api.requests() == before + 5);
  CHECK(sent.size() == 4);
  for (const TimePoint at : sent) CHECK(seconds_between(refused_at, at) >= 3.0);

  // Who cannot wait so long is told at once, without a request.
  Client hasty(api.config(), {.retry_budget = Seconds(0)});
  pause = "30";
  refuses = true;
  CHECK_ERROR(hasty.get(kThrottledMap), "429");
  const int refused = api.requests();
  CHECK_ERROR(hasty.get(kThrottledMap), "not sent, since the server is overloaded");
  CHECK(api.requests() == refused);
}

}  // namespace adaptdl::kube
