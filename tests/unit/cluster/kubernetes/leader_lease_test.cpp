#include "core/cluster/kubernetes/leader_lease.h"

#include <doctest/doctest.h>

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

constexpr double kWall = 1'769'846'400;

}  // namespace

TEST_CASE("the first leads, and the second waits for its end") {
  LeaderLease a({.identity = "a"}), b({.identity = "b"});
  const auto first = a.next(std::nullopt, 0, kWall);
  REQUIRE(first);
  CHECK_FALSE(a.leads(0));  // it is not written yet
  a.renewed(0);
  CHECK(a.leads(7.9));
  CHECK_FALSE(a.leads(8));
  CHECK((*first)["renewTime"] == "2026-01-31T08:00:00.000000Z");

  CHECK_FALSE(b.next(first, 1000, kWall));
  const auto second = a.next(first, 2, kWall + 2);
  REQUIRE(second);
  a.renewed(2);
  CHECK((*second)["acquireTime"] == (*first)["acquireTime"]);
  CHECK((*second)["leaseTransitions"] == 0);
  // b's own clock counts from when it saw the lease change, whatever the times in it say.
  CHECK_FALSE(b.next(second, 1002, kWall - 1e6));
  CHECK_FALSE(b.next(second, 1013.9, kWall));
  const auto taken = b.next(second, 1014, kWall + 14);
  REQUIRE(taken);
  CHECK((*taken)["holderIdentity"] == "b");
  CHECK((*taken)["leaseTransitions"] == 1);
  b.renewed(1014);
  CHECK(b.leads(1014));

  CHECK_FALSE(a.next(taken, 16, kWall));
  CHECK_FALSE(a.leads(3));
}

TEST_CASE("a lease that was released is taken at once, one that is nonsense when it is old") {
  LeaderLease a({.identity = "a"}), b({.identity = "b"});
  a.next(std::nullopt, 0, kWall);
  const auto taken = b.next(a.released(kWall), 0, kWall);
  REQUIRE(taken);
  CHECK((*taken)["leaseTransitions"] == 1);
  CHECK(b.next(Json("nonsense"), 5, kWall));
  const Json odd = {{"holderIdentity", "x"}, {"leaseDurationSeconds", "long"}};
  CHECK_FALSE(a.next(odd, 5, kWall));
  CHECK(a.next(odd, 20, kWall));
}
