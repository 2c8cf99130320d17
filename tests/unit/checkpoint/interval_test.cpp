#include "runtime/checkpoint/interval.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace adaptdl;

TEST_CASE("the optimum is Young's for a small cost, and no interval is better") {
  CHECK(optimal_interval(0.01, 3600) == doctest::Approx(std::sqrt(2 * 0.01 * 3600)).epsilon(0.01));
  // Daly's model of the whole time for a second of training (equation 20), without the restart.
  const auto time = [](double interval, double cost, double mtbf) {
    return mtbf * (std::exp((interval + cost) / mtbf) - 1) / interval;
  };
  for (const double cost : {0.01, 1.0, 30.0, 300.0}) {
    for (const double mtbf : {600.0, 3600.0, 86400.0}) {
      const double best = optimal_interval(cost, mtbf), least = time(best, cost, mtbf);
      for (const double other : {0.5, 0.8, 1.25, 2.0}) {
        CHECK(least < time(best * other, cost, mtbf));
      }
    }
  }
}

TEST_CASE("a checkpoint that costs more than the time between failures is written once in that") {
  CHECK(optimal_interval(500, 100) == 100);
  CHECK(optimal_interval(200, 100) == 100);
  CHECK(optimal_interval(0, 100) == 0);
}

TEST_CASE("the interval stays between the disk's bound and the user's") {
  CHECK(checkpoint_interval({0, 0}, 3600, 60) == 1);
  CHECK(checkpoint_interval({0.1, 0.1}, 3600, 60) == doctest::Approx(26.8).epsilon(0.01));
  CHECK(checkpoint_interval({1, 1}, 3600, 60) == 60);
  CHECK(checkpoint_interval({0, 10}, 3600, 60) == 30);
  CHECK(checkpoint_interval({0, 40}, 3600, 60) == 60);
  CHECK(checkpoint_interval({0, 0}, 3600, 0.25) == 0.25);
}

TEST_CASE("without failures, one in forty minutes is expected, and ever fewer") {
  FailureHistory history;
  CHECK(history.mtbf_s() == doctest::Approx(2400));
  for (int step = 0; step < 6000; ++step) history.trained(0.1);
  CHECK(history.mtbf_s() > 4000);
  CHECK(history.mtbf_s() < 5000);
}

TEST_CASE("failures shorten the expected time, and are forgotten within hours") {
  FailureHistory history;
  history.trained(10);
  const double before = history.mtbf_s();
  history.failed();
  CHECK(history.mtbf_s() < before / 4);
  for (int i = 0; i < 4; ++i) {
    history.trained(10);
    history.failed();
  }
  const double burst = history.mtbf_s();
  CHECK(burst < 150);
  // Five in the first minute: a checkpoint of 50 ms is worth writing every few seconds.
  CHECK(checkpoint_interval({0.05, 0.1}, burst, 60) < 4);
  history.trained(4 * 3600);
  CHECK(history.mtbf_s() > 10 * burst);
  CHECK(history.mtbf_s() > 3600);
}
