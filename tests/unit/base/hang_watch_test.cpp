#include "core/base/hang_watch.h"

#include <doctest/doctest.h>

using namespace adaptdl;

namespace {

struct Watched {
  HangWatch watch;
  TimePoint now = TimePoint{} + std::chrono::hours(1);

  explicit Watched(double least) : watch(least) {}

  // Looks every `every` seconds; whether the patience came to its end within `seconds`.
  bool over(double seconds, double every = 0.7) {
    for (double t = 0; t < seconds; t += every) {
      now += std::chrono::duration_cast<Monotonic::duration>(Seconds(every));
      watch.waiting(now, true);
      if (watch.waited() >= watch.patience()) return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("hang: patience ends after the given time, and 20 of the longest steps") {
  Watched quick(60);
  for (int i = 0; i < 100; ++i) quick.watch.step_took(Seconds(0.05));
  CHECK_FALSE(quick.over(60));
  CHECK(quick.over(3));
  Watched slow(60);
  slow.watch.step_took(Seconds(30));
  slow.watch.step_took(Seconds(2));
  CHECK_FALSE(slow.over(599));
  CHECK(slow.over(5));
}

TEST_CASE("hang: a step in which somebody was stopped is not a slow one") {
  Watched watched(60);
  watched.watch.disturbed();
  watched.watch.step_took(Seconds(1000));
  CHECK(watched.watch.patience() == Seconds(60));
  watched.watch.step_took(Seconds(5));
  CHECK(watched.watch.patience() == Seconds(100));
}

TEST_CASE("hang: any progress begins the wait anew") {
  Watched watched(60);
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(watched.over(50));
    if (i % 2 == 0) {
      watched.watch.restart();
    } else {
      watched.watch.waiting(watched.now, false);
    }
    CHECK_FALSE(watched.watch.counting());
  }
}

TEST_CASE("hang: time in which nobody looked does not count") {
  Watched watched(60);
  CHECK_FALSE(watched.over(30));
  watched.now += std::chrono::hours(10);
  CHECK_FALSE(watched.over(20));
  CHECK(watched.over(20));
}

TEST_CASE("hang: one late look alone ends no patience, however short") {
  for (const double least : {0.1, 1.0, 2.0}) {
    Watched watched(least);
    CHECK_FALSE(watched.over(0.7));
    CHECK_FALSE(watched.over(100, 100));
    CHECK(watched.over(2));
  }
}

TEST_CASE("hang: time may count in part, and is told in full") {
  Watched watched(60);
  for (int i = 0; i <= 100; ++i) {
    watched.now += std::chrono::seconds(1);
    watched.watch.waiting(watched.now, true, 0.1);
  }
  CHECK(watched.watch.waited().count() == doctest::Approx(10));
  CHECK(watched.watch.elapsed().count() == doctest::Approx(100));
  CHECK(watched.over(51));
}

TEST_CASE("hang: it can be switched off") {
  CHECK_FALSE(HangWatch(0).on());
  CHECK(HangWatch(1).on());
}
