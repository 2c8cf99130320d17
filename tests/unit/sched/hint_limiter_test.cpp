#include "core/sched/hint_limiter.h"

#include <doctest/doctest.h>

namespace adaptdl {
namespace {

SentHints sent(const std::string& name, int number) {
  SentHints hints{"a", name, std::nullopt, {}};
  hints.hints.max_profiled_replicas = number;
  return hints;
}

}  // namespace

TEST_CASE("a job's newest hints are kept until its bucket has a token") {
  const TimePoint start{};
  const auto at = [&](double seconds) {
    return start + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
  };
  HintLimiter limiter;
  CHECK(limiter.idle());
  // As programs send them: never kept.
  for (int i = 0; i < 100; ++i) CHECK(limiter.put(sent("usual", i), at(10.01 * i)));
  // Far more than that, for a minute: 5 at once, and then one each 10 s.
  int applied = 0, last = 0;
  for (int i = 0; i <= 60'000; ++i) {
    const TimePoint now = at(2000 + i * 0.001);
    std::vector<SentHints> due;
    if (i % 1000 == 0) due = limiter.take(now);
    if (auto direct = limiter.put(sent("fast", i), now)) due.push_back(*direct);
    for (const SentHints& one : due) {
      ++applied;
      CHECK(one.name == "fast");
      CHECK(*one.hints.max_profiled_replicas >= last);
      last = *one.hints.max_profiled_replicas;
    }
    CHECK((i != 1000 || applied == 5));
  }
  CHECK(applied >= 10);
  CHECK(applied <= 11);
  CHECK(limiter.put(sent("other", 1), at(2060)));
  const auto rest = limiter.take(at(2071));
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].hints.max_profiled_replicas == 60'000);
  CHECK_FALSE(limiter.idle());
  CHECK(limiter.take(at(2200)).empty());
  CHECK(limiter.idle());  // nobody is remembered for ever
}

}  // namespace adaptdl
