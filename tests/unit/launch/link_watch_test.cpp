#include "core/launch/run/link_watch.h"

#include <doctest/doctest.h>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

using What = SlowNews;

// A made-up run of hosts 0, 10, 20, ... that exchange 30 MB with each other in a window of 3 s, at
// 100 MB/s each, but for the connections that are slower.
struct Network {
  explicit Network(size_t count) : rates(count, std::vector<double>(count, 100e6)) {}

  static int number(size_t host) { return static_cast<int>(10 * host); }
  void slow(size_t a, size_t b, double rate) { rates[a][b] = rates[b][a] = rate; }
  void slow(size_t host, double rate) {
    for (size_t other = 0; other < rates.size(); ++other) slow(host, other, rate);
  }

  LinkWindow window(size_t from) const {
    LinkWindow window{.from = number(from), .seconds = 3};
    for (size_t to = 0; to < rates.size(); ++to) {
      if (to == from) continue;
      window.to.push_back({.host = number(to), .bytes = 30e6, .busy_s = 30e6 / rates[from][to]});
    }
    return window;
  }
  std::vector<LinkWatch::News> play(int windows) {
    std::vector<LinkWatch::News> all;
    for (int i = 0; i < windows; ++i) {
      for (size_t from = 0; from < rates.size(); ++from) {
        const auto news = watch.window(window(from));
        CHECK((news.empty() || from + 1 == rates.size()));  // all have told by then
        all.insert(all.end(), news.begin(), news.end());
      }
    }
    return all;
  }

  std::vector<std::vector<double>> rates;  // bytes/s
  LinkWatch watch;
};

}  // namespace

TEST_CASE("link watch: a slow host is named once, with its evidence, and its end is told") {
  for (const size_t count : {3u, 4u, 7u}) {
    CAPTURE(count);
    Network hosts(count);
    CHECK(hosts.play(10).empty());
    hosts.slow(1, 20e6);
    CHECK(hosts.play(2).empty());
    auto news = hosts.play(20);
    REQUIRE(news.size() == 1);
    CHECK(news[0].what == What::slow);
    const SlowLink& evidence = news[0].evidence;
    CHECK(evidence.host == 10);
    CHECK(!evidence.peer);
    CHECK(1 / evidence.byte_s == doctest::Approx(20e6));
    CHECK(1 / evidence.others_byte_s == doctest::Approx(100e6));
    CHECK(evidence.waited == doctest::Approx((1.5 - 0.3) / 3));
    REQUIRE(hosts.watch.slow().size() == 1);

    hosts.slow(1, 100e6);
    CHECK(hosts.play(2).empty());
    news = hosts.play(10);
    REQUIRE(news.size() == 1);
    CHECK(news[0].what == What::over);
    CHECK(hosts.watch.slow().empty());
  }
}

TEST_CASE("link watch: a connection is named, where neither of its hosts is slow") {
  for (const size_t count : {3u, 4u, 7u}) {
    CAPTURE(count);
    Network hosts(count);
    hosts.slow(2, 0, 20e6);
    const auto news = hosts.play(10);
    REQUIRE(news.size() == 1);
    CHECK(news[0].what == What::slow);
    CHECK(news[0].evidence.host == 0);
    CHECK(news[0].evidence.peer == 20);
  }
}

TEST_CASE("link watch: one direction is enough") {
  Network hosts(3);
  for (const size_t other : {0u, 2u}) hosts.rates[other][1] = 20e6;
  const auto news = hosts.play(10);
  REQUIRE(news.size() == 1);
  CHECK(news[0].evidence.host == 10);
  CHECK(!news[0].evidence.peer);
}

TEST_CASE("link watch: nobody is named among two hosts, in a slow network, or without need") {
  Network two(2);
  two.slow(0, 1, 20e6);
  CHECK(two.play(10).empty());

  Network all(4);
  for (size_t host = 0; host < 4; ++host) all.slow(host, 20e6);
  CHECK(all.play(10).empty());

  Network unnoticed(4);  // busy for 0.2 s of 3
  for (size_t host = 0; host < 4; ++host) unnoticed.slow(host, 1000e6);
  unnoticed.slow(1, 150e6);
  CHECK(unnoticed.play(10).empty());

  Network single(4);  // a disturbance of two windows, again and again
  for (int i = 0; i < 10; ++i) {
    single.slow(1, 20e6);
    CHECK(single.play(2).empty());
    single.slow(1, 100e6);
    CHECK(single.play(1).empty());
  }
}

TEST_CASE("link watch: who trains no more is told, and so are those who are too few to compare") {
  for (const bool stays : {true, false}) {
    Network hosts(4);
    hosts.slow(1, 20e6);
    CHECK(hosts.play(3).size() == 1);
    CHECK(hosts.watch.hosts({0, 10, 20, 30}).empty());
    CHECK(hosts.play(10).empty());
    REQUIRE(hosts.watch.slow().size() == 1);
    const auto news = stays ? hosts.watch.hosts({0, 10}) : hosts.watch.hosts({0, 20, 30});
    REQUIRE(news.size() == 1);
    CHECK(news[0].what == What::gone);
    CHECK(hosts.watch.slow().empty());
  }
}

TEST_CASE("link watch: what changes with who trains must be slow anew") {
  Network hosts(4);
  hosts.slow(1, 20e6);
  CHECK(hosts.play(2).empty());
  CHECK(hosts.watch.hosts({0, 10, 20, 30}).empty());
  CHECK(hosts.play(2).empty());
  CHECK(hosts.play(1).size() == 1);
}

TEST_CASE("link watch: a connection is forgotten while one of its hosts is slow") {
  Network hosts(4);
  hosts.slow(0, 2, 20e6);
  CHECK(hosts.play(3).size() == 1);
  hosts.slow(2, 5e6);
  const auto news = hosts.play(3);
  REQUIRE(news.size() == 2);
  CHECK(news[0].what == What::slow);
  CHECK(!news[0].evidence.peer);
  CHECK(news[1].what == What::gone);
  CHECK(news[1].evidence.peer == 20);

  Network unsure(4);  // three windows, but not in a row
  unsure.slow(0, 2, 20e6);
  CHECK(unsure.play(2).empty());
  unsure.slow(2, 5e6);
  CHECK(unsure.play(1).empty());
  unsure.slow(2, 100e6);
  unsure.slow(0, 2, 20e6);
  CHECK(unsure.play(2).empty());
}

TEST_CASE("link watch: odd numbers, of hosts that lie, are no evidence") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double odd : {kNan, kInfinity, -kInfinity, -1.0, 0.0, 1e-320, 1e308, -1e308}) {
    for (double LinkWindow::To::*field : {&LinkWindow::To::bytes, &LinkWindow::To::busy_s}) {
      CAPTURE(odd);
      Network hosts(4);
      for (int i = 0; i < 10; ++i) {
        for (size_t from = 0; from < 4; ++from) {
          LinkWindow window = hosts.window(from);
          for (LinkWindow::To& to : window.to) to.*field = odd;
          if (from == 3) window.seconds = odd;
          CHECK(hosts.watch.window(window).empty());
        }
      }
    }
  }
}
