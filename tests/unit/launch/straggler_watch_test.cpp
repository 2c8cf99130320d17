#include "core/launch/run/straggler_watch.h"

#include <algorithm>
#include <cstddef>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

#include "core/base/rng.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

using What = SlowNews;

// How long the others wait for that one, in the median.
double waited_for(std::vector<double> took, size_t one) {
  const double mine = took[one];
  took.erase(took.begin() + static_cast<std::ptrdiff_t>(one));
  std::ranges::sort(took);
  return took.empty() ? 0 : std::max(0.0, mine - took[(took.size() - 1) / 2]);
}

// A made-up run: windows of 100 steps, in which each replica takes `times[i]` s for 8 samples. All
// wait for the slowest; the transfer of gradients takes 1 ms.
struct MadeUp {
  StragglerWatch watch;
  Rng rng{7};
  std::vector<std::string> kinds;

  PaceWindow window(const std::vector<double>& times, double noise = 0) {
    PaceWindow window;
    std::vector<double> took;
    for (const double time : times) took.push_back(100 * time * (1 + noise * rng.uniform()));
    const double slowest = *std::max_element(took.begin(), took.end());
    for (size_t i = 0; i < took.size(); ++i) {
      window.replicas.push_back({.member = i,
                                 .kind = i < kinds.size() ? kinds[i] : "",
                                 .compute_s = took[i],
                                 .samples = 800,
                                 .waited_s = waited_for(took, i)});
    }
    window.seconds = slowest + 0.1;
    return window;
  }
  // What is told in so many windows.
  std::vector<StragglerWatch::News> play(int windows, const std::vector<double>& times,
                                         double noise = 0) {
    std::vector<StragglerWatch::News> all;
    for (int i = 0; i < windows; ++i) {
      const auto news = watch.window(window(times, noise));
      all.insert(all.end(), news.begin(), news.end());
    }
    return all;
  }
};

}  // namespace

TEST_CASE("straggler: the slow one is named once, with its evidence, and its end is told") {
  MadeUp run;
  CHECK(run.play(10, {0.03, 0.03, 0.03, 0.03}).empty());
  CHECK(run.play(2, {0.03, 0.09, 0.03, 0.03}).empty());
  auto news = run.play(50, {0.03, 0.09, 0.03, 0.03});
  REQUIRE(news.size() == 1);
  CHECK(news[0].what == What::slow);
  const Straggler& evidence = news[0].evidence;
  CHECK(evidence.member == 1);
  CHECK(evidence.factor() == doctest::Approx(3));
  CHECK(evidence.sample_s == doctest::Approx(0.09 / 8));
  CHECK(evidence.others_sample_s == doctest::Approx(0.03 / 8));
  CHECK(evidence.waited == doctest::Approx(6 / 9.1));
  REQUIRE(run.watch.stragglers().size() == 1);
  CHECK(run.watch.stragglers()[0].member == 1);

  CHECK(run.play(50, {0.03, 0.04, 0.03, 0.03}).empty());  // neither slow nor fast
  CHECK(run.play(2, {0.03, 0.03, 0.03, 0.03}).empty());
  CHECK(run.play(1, {0.03, 0.04, 0.03, 0.03}).empty());  // not in a row
  news = run.play(50, {0.03, 0.03, 0.03, 0.03});
  REQUIRE(news.size() == 1);
  CHECK(news[0].what == What::over);
  CHECK(news[0].evidence.member == 1);
  CHECK(run.watch.stragglers().empty());
}

TEST_CASE("straggler: a single disturbance, however long, names nobody") {
  MadeUp run;
  for (int i = 0; i < 20; ++i) {
    CHECK(run.play(2, {0.03, 3.0, 0.03}).empty());
    CHECK(run.play(1, {0.03, 0.03, 0.03}).empty());
  }
}

TEST_CASE("straggler: noise names nobody, and hides nobody who is slow enough") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    MadeUp run;
    run.rng = Rng(seed);
    CHECK(run.play(200, {0.03, 0.03, 0.03, 0.03}, 0.7).empty());
    const auto news = run.play(200, {0.03, 0.03, 0.075, 0.03}, 0.7);
    REQUIRE_FALSE(news.empty());
    CHECK(news[0].what == What::slow);
    for (const auto& one : news) CHECK(one.evidence.member == 2);
  }
}

TEST_CASE("straggler: where most are slow, or all, nobody is") {
  MadeUp run;
  CHECK(run.play(10, {0.09, 0.09, 0.09, 0.09}).empty());
  CHECK(run.play(10, {0.09, 0.09, 0.09, 0.03}).empty());
  CHECK(run.play(10, {0.09, 0.09, 0.03}).empty());
  CHECK(run.play(10, {0.09, 0.03}).empty());  // of two, nobody can say which is odd
  CHECK(run.play(10, {0.09}).empty());
}

TEST_CASE("straggler: of several, each is named") {
  MadeUp run;
  const auto news = run.play(3, {0.03, 0.09, 0.03, 0.03, 0.09, 0.03});
  REQUIRE(news.size() == 2);
  CHECK(news[0].evidence.member == 1);
  CHECK(news[1].evidence.member == 4);
}

TEST_CASE("straggler: one for which nobody waits is none") {
  MadeUp run;
  PaceWindow window = run.window({0.03, 0.03, 0.09});
  // It computes a third of the samples, in the same time.
  for (Pace& pace : window.replicas) pace.waited_s = 0;
  window.replicas[2].samples /= 3;
  window.replicas[2].compute_s /= 3;
  for (int i = 0; i < 10; ++i) CHECK(run.watch.window(window).empty());
  CHECK(compare_paces(window)[2].factor() == doctest::Approx(3));
}

TEST_CASE("straggler: replicas are compared with their own kind") {
  MadeUp run;
  run.kinds = {"a", "a", "a", "b", "b", "b"};
  CHECK(run.play(10, {0.03, 0.03, 0.03, 0.09, 0.09, 0.09}).empty());
  const auto news = run.play(10, {0.03, 0.03, 0.03, 0.09, 0.3, 0.09});
  REQUIRE(news.size() == 1);
  CHECK(news[0].evidence.member == 4);
  MadeUp lone;
  lone.kinds = {"a", "a", "a", "b"};
  CHECK(lone.play(10, {0.03, 0.03, 0.03, 0.09}).empty());
}

TEST_CASE("straggler: a factor that changes much is told again") {
  MadeUp run;
  CHECK(run.play(5, {0.03, 0.06, 0.03}).size() == 1);
  CHECK(run.play(20, {0.03, 0.09, 0.03}).empty());
  const auto news = run.play(20, {0.03, 0.3, 0.03});
  REQUIRE_FALSE(news.empty());
  CHECK(news[0].what == What::changed);
  CHECK(news[0].evidence.factor() > 2 * Straggler::kSlow);
}

TEST_CASE("straggler: after a rescale only who is named counts on") {
  MadeUp run;
  CHECK(run.play(2, {0.03, 0.09, 0.03, 0.03}).empty());
  CHECK(run.watch.members({0, 1, 2}).empty());
  CHECK(run.play(2, {0.03, 0.09, 0.03}).empty());
  CHECK(run.play(1, {0.03, 0.09, 0.03}).size() == 1);
  CHECK(run.watch.members({0, 1, 2, 3}).empty());
  CHECK(run.watch.stragglers().size() == 1);
  const auto news = run.watch.members({0, 2, 3});
  REQUIRE(news.size() == 1);
  CHECK(news[0].what == What::gone);
  CHECK(run.watch.stragglers().empty());

  CHECK(run.play(3, {0.03, 0.09, 0.03}).size() == 1);
  CHECK(run.watch.members({0, 1}).size() == 1);  // nobody is left to compare it with
}

TEST_CASE("straggler: numbers that cannot be are ignored") {
  MadeUp run;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double odd : {nan, -1.0, 0.0, std::numeric_limits<double>::infinity()}) {
    PaceWindow window = run.window({0.03, 0.03, 0.03, 0.03});
    window.replicas[0].compute_s = odd;
    CHECK(compare_paces(window).size() == 3);
    window = run.window({0.03, 0.03, 0.03, 0.03});
    window.replicas[0].samples = odd;
    CHECK(compare_paces(window).size() == 3);
    window.seconds = odd;
    CHECK(compare_paces(window).empty());
  }
}
