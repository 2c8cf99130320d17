#include "core/base/poll.h"

#include <doctest/doctest.h>

#include "tests/support/least_of_three.h"

using namespace adaptdl;

TEST_CASE("a deadline that is over, be it the earliest of all, is not waited for") {
  std::vector<pollfd> nothing;
  for (const TimePoint deadline : {TimePoint::min(), TimePoint(), Monotonic::now()}) {
    const auto seconds = [&] {
      const TimePoint begun = Monotonic::now();
      poll_until(nothing, deadline);
      CHECK_FALSE(wait_ready(-1, POLLIN, deadline));
      return seconds_since(begun);
    };
    CHECK(adaptdl::testing::least_of_three(1, seconds) < 1);
  }
}

TEST_CASE("a wait ends at its deadline, not before") {
  std::vector<pollfd> nothing;
  const TimePoint deadline = Monotonic::now() + std::chrono::milliseconds(20);
  poll_until(nothing, deadline);
  CHECK(Monotonic::now() >= deadline);
}
