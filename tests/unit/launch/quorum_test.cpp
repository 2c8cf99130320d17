#include "core/launch/hosts/quorum.h"

#include <doctest/doctest.h>

using namespace adaptdl::launch;

namespace {

using Hosts = Quorum::Hosts;

const Roster::Host kA{"a", "10.0.0.1", 1000}, kB{"b", "10.0.0.2", 1000}, kC{"c", "10.0.0.3", 1000};

// Of a launcher whose own host has replicas, and of those.
Roster roster(int64_t number, Hosts hosts) {
  const int size = 1 + static_cast<int>(hosts.size());
  return {.number = number, .size = size, .hosts = std::move(hosts)};
}

}  // namespace

TEST_CASE("hosts that are lost at once go on without the launcher if they are a majority") {
  Quorum quorum;
  CHECK_FALSE(quorum.guards());
  quorum.settle(roster(1, {kA, kB}), false);
  CHECK(quorum.guards());
  CHECK(quorum.holds({kA, kB}));
  CHECK(quorum.holds({kA}));
  CHECK_FALSE(quorum.holds({}));
  REQUIRE(quorum.lost({kA}).size() == 1);
  CHECK(quorum.lost({kA}).front().id == "b");
  // c has come since, and says nothing about a and b.
  CHECK_FALSE(quorum.holds({kC}));
  quorum.settle(roster(2, {kA}), false);
  CHECK(quorum.holds({}));  // of two equal halves, the launcher's
  quorum.give_up_lost();
  CHECK(quorum.holds({}));
  CHECK(quorum.lost({}).empty());
}

TEST_CASE("a launcher that takes over needs those that had to follow it, until all know of it") {
  Quorum quorum;
  quorum.succeed(roster(1, {kA, kB}), false);
  CHECK(quorum.succeeds());
  CHECK(quorum.holds({kA, kB}));
  CHECK_FALSE(quorum.holds({kA}));
  CHECK_FALSE(quorum.holds({kA, kC}));
  quorum.settle(roster(2, {kA, kB}), false);
  CHECK_FALSE(quorum.succeeds());
  CHECK(quorum.holds({kA}));
  quorum.succeed(roster(2, {kA, kB}), false);
  quorum.give_up_lost();
  CHECK_FALSE(quorum.succeeds());
  CHECK(quorum.holds({}));
  Roster shared = roster(3, {kA, kB});
  shared.shared = true;
  quorum.succeed(shared, false);  // its folder's lock says that the other is gone
  CHECK_FALSE(quorum.succeeds());
}

TEST_CASE(
    "a launcher that comes again needs all that may lead, or has to know that they are gone") {
  Quorum quorum;
  const Roster before = roster(4, {kA, kB});
  quorum.come_again(before);
  CHECK(quorum.comes_again());
  CHECK_FALSE(quorum.holds({kA, kC}));
  CHECK(quorum.lost({kA}).size() == 1);
  const Roster::Host again{"new", kB.address, kB.port};
  CHECK(quorum.holds({kA, again}));
  CHECK(quorum.lost({kA, again}).empty());
  quorum.settle(roster(1, {kA, again}), false);
  CHECK_FALSE(quorum.comes_again());
  CHECK(quorum.holds({kA}));
  quorum.come_again(before);
  quorum.give_up_lost();
  CHECK_FALSE(quorum.comes_again());
  CHECK(quorum.holds({}));
  quorum.come_again(roster(4, {}));  // all are gone
  CHECK_FALSE(quorum.guards());
}

TEST_CASE("hosts that left, or whose place another process has, do not go on") {
  Quorum quorum;
  quorum.settle(roster(1, {kA, kB}), false);
  quorum.left("a");
  CHECK(quorum.holds({}));
  quorum.joined("a");  // it has come again
  CHECK_FALSE(quorum.holds({}));
  CHECK(quorum.holds({{"new", kB.address, kB.port}}));
  CHECK_FALSE(quorum.holds({{"new", kB.address, 1001}}));
}

TEST_CASE("a host that has left counts as long as a settled roster lists it") {
  Quorum quorum;
  quorum.settle(roster(1, {kA, kB}), false);
  for (const char* id : {"a", "b"}) quorum.left(id);
  quorum.settle(roster(1, {kA, kB}), false);  // what they knew before comes late
  CHECK(quorum.holds({}));
  // Only b is known to have left when a, whom roster 2 lacks, is listed again.
  quorum.settle(roster(2, {kB}), false);
  quorum.settle(roster(3, {kA, kB, kC}), false);
  CHECK(quorum.holds({}));
  quorum.settle(roster(4, {kA, kC}), false);
  CHECK_FALSE(quorum.holds({}));
}

TEST_CASE("nobody is guarded against where a folder decides, or no host may lead") {
  Quorum quorum;
  quorum.settle(roster(1, {kA, kB}), true);
  CHECK_FALSE(quorum.guards());
  Roster shared = roster(2, {kA, kB});
  shared.shared = true;
  quorum.settle(shared, false);
  CHECK_FALSE(quorum.guards());
  quorum.settle(roster(3, {{"a", "10.0.0.1", 0}}), false);
  CHECK_FALSE(quorum.guards());
}

TEST_CASE("a launcher holds by each roster that lost hosts may have, for any that are here") {
  const Hosts all{kA, kB, kC, {"d", "10.0.0.4", 1000}, {"e", "10.0.0.5", 1000}};
  const auto of = [&](unsigned chosen) {
    Hosts some;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1) != 0) some.push_back(all[i]);
    }
    return some;
  };
  int held = 0, wrong = 0;
  for (const int own : {0, 1}) {
    for (unsigned before = 0; before < 32; ++before) {
      for (unsigned now = 0; now < 32; ++now) {
        const auto told = [&](int64_t number, unsigned hosts) {
          Roster roster{.number = number, .hosts = of(hosts)};
          roster.size = own + static_cast<int>(roster.hosts.size());
          return roster;
        };
        Quorum quorum;
        quorum.settle(told(1, before), false);
        quorum.tell(told(2, now), false);
        for (unsigned here = 0; here < 32; ++here) {
          if (!quorum.holds(of(here))) continue;
          ++held;
          for (const unsigned roster : {before, now}) {
            const int size = told(0, roster).size;
            const auto lost = static_cast<int>(of(roster & ~here).size());
            wrong += lost >= enough_without_launcher(size) ? 1 : 0;
          }
        }
        wrong += quorum.holds(of(before | now)) ? 0 : 1;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(held > 32 * 32);
}

TEST_CASE("hosts may go on by rosters that are told, until all know a newer one") {
  Quorum quorum;
  quorum.tell(roster(1, {kA}), false);
  CHECK(quorum.guards());
  CHECK(quorum.holds({}));  // of two equal halves, the launcher's
  quorum.tell(roster(2, {kA, kB}), false);
  CHECK_FALSE(quorum.holds({}));
  CHECK(quorum.holds({kB}));
  CHECK(quorum.oldest().number == 1);
  CHECK(quorum.lost({}).size() == 2);
  quorum.tell(roster(3, {kB}), false);  // of which a and b may not have heard
  CHECK_FALSE(quorum.holds({}));
  quorum.settle(roster(3, {kB}), false);
  CHECK(quorum.holds({}));
  CHECK(quorum.lost({}).size() == 1);
  quorum.tell(roster(4, {kA, kB, kC}), false);
  CHECK_FALSE(quorum.holds({}));
  quorum.give_up_lost();
  CHECK_FALSE(quorum.guards());
  CHECK(quorum.holds({}));
  Roster shared = roster(5, {kA, kB});
  shared.shared = true;
  quorum.tell(shared, false);
  quorum.tell(roster(6, {kA, kB}), true);
  quorum.tell(roster(7, {{"a", "10.0.0.1", 0}}), false);
  CHECK_FALSE(quorum.guards());
}

TEST_CASE("hosts that may go on are remembered until all others know that they are gone") {
  Quorum quorum;
  CHECK(quorum.to_remember(roster(1, {kA})).number == 1);
  quorum.settle(roster(1, {kA, kB}), false);
  CHECK(quorum.to_remember(roster(2, {kB})).number == 1);
  quorum.tell(roster(2, {kB, kC}), false);
  const Roster both = quorum.to_remember(roster(2, {kB, kC}));
  CHECK(both.number == 1);
  CHECK(both.hosts.size() == 3);
  CHECK(both.size == 4);
  quorum.settle(roster(2, {kB}), false);
  CHECK(quorum.to_remember(roster(2, {kB})).number == 2);
  Roster shared = roster(3, {kB});
  shared.shared = true;
  CHECK(quorum.to_remember(shared).number == 3);  // the folder tells who leads
}
