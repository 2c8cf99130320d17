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

TEST_CASE("hosts that may go on are remembered until all others know that they are gone") {
  Quorum quorum;
  CHECK(quorum.to_remember(roster(1, {kA})).number == 1);
  quorum.settle(roster(1, {kA, kB}), false);
  CHECK(quorum.to_remember(roster(2, {kB})).number == 1);
  quorum.settle(roster(2, {kB}), false);
  CHECK(quorum.to_remember(roster(2, {kB})).number == 2);
  Roster shared = roster(3, {kB});
  shared.shared = true;
  CHECK(quorum.to_remember(shared).number == 3);  // the folder tells who leads
}
