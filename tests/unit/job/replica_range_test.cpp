#include "core/job/replica_range.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

TEST_CASE("numbers of replicas") {
  const ReplicaLimits eight{.most = 8};
  CHECK(parse_replica_range("3", "N", eight) == ReplicaRange{3, 3, true});
  CHECK(parse_replica_range("0:8", "N", eight) == ReplicaRange{0, 8, false});
  CHECK(parse_replica_range("2:2", "N", eight) == ReplicaRange{2, 2, false});
  CHECK(parse_replica_range("2:", "N", {.open = true}) == ReplicaRange{2, std::nullopt, false});
  for (const char* wrong : {"", "0", "9", "3:2", "1:", ":2", "1:0", "a", "1:2:3", "-1:2"}) {
    INFO(wrong);
    CHECK_THROWS_AS(replica_range_argument(wrong, "N", eight), UsageError);
    CHECK_ERROR(parse_replica_range(wrong, "f:2: replicas", eight), "f:2: replicas: ");
  }
  CHECK_ERROR(parse_replica_range("0:1", "N", {.least = 1}), "1 <= MIN <= MAX");
  CHECK_ERROR(parse_replica_range("0", "N"), "N and MAX from 1 to 1000000");
  CHECK_ERROR(parse_replica_range("1:x", "N", {.open = true}), "N, MIN: or MIN:MAX");
}
