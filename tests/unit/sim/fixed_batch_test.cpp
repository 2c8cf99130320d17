#include "core/sim/baselines/fixed_batch.h"

#include <doctest/doctest.h>

using namespace adaptdl;

namespace {

constexpr BatchBounds kBounds{
    .initial = 128, .max = 4096, .atomic_min = 32, .atomic_max = 1024, .accumulation = true};

void check(const BatchChoice& got, int64_t atomic, int accum_steps) {
  CHECK(got.atomic == atomic);
  CHECK(got.accum_steps == accum_steps);
}

}  // namespace

TEST_CASE("a fixed batch is shared in as few steps as fit") {
  check(share_batch(kBounds, 2048, 6), 342, 0);   // 341.3 rounded up
  check(share_batch(kBounds, 4096, 4), 1024, 0);  // just fits
  check(share_batch(kBounds, 4096, 3), 682, 1);   // 1366 in two, 683 of them 6 times too many
  check(share_batch(kBounds, 4096, 2), 1024, 1);
  check(share_batch(kBounds, 4096, 1), 1024, 3);
  check(share_batch(kBounds, 4096, 64), 64, 0);
  check(share_batch(kBounds, 4096, 60), 68, 0);  // 69 would be more than 4096
}

TEST_CASE("a lone replica with more than the initial batch accumulates") {
  check(share_batch(kBounds, 128, 1), 128, 0);
  check(share_batch(kBounds, 130, 1), 65, 1);
  check(share_batch(kBounds, 128, 1, true), 64, 1);
  check(share_batch(kBounds, 128, 2, true), 64, 0);
}

TEST_CASE("a batch that many replicas cannot share leaves one sample to each") {
  check(share_batch({.initial = 2, .max = 4}, 4, 8), 1, 0);
  check(share_batch({.initial = 2, .max = 4}, 4, 2), 2, 0);  // atomic_max 0: as many as max
}

TEST_CASE("a batch of absurdly many steps overflows nothing") {
  const BatchBounds bounds{.initial = 128, .max = 1ll << 40, .atomic_min = 1, .atomic_max = 1};
  const BatchChoice choice = share_batch(bounds, 1ll << 40, 1);
  CHECK(choice.atomic >= 1);
  CHECK(choice.accum_steps == kMostAccumulation);
}
