#include "runtime/session/exchange.h"

#include <doctest/doctest.h>

#include "tests/unit/comm/group.h"

using namespace adaptdl;

namespace {

StepReport report(int rank) {
  StepReport mine;
  mine.loss_sum = 12 + 8 * rank;
  mine.samples = 4 + 4 * rank;
  mine.nonfinite = rank == 1;
  mine.accum_s = 1 + rank;
  mine.optim_s = 3 + rank;
  mine.sync_s = 5 + rank;
  mine.step_s = 7 - rank;
  mine.next_batch = {32 + rank, 2 + rank};
  mine.next_measure = rank == 0;
  mine.checkpoint = rank == 0;
  mine.local = {0.25 + rank, 8};
  mine.used = {0x80000000u, rank == 0 ? 5u : 3u};
  return mine;
}

}  // namespace

TEST_CASE("a lone replica's summary is its report") {
  const StepSummary sum = exchange(nullptr, report(0));
  CHECK(sum.loss == 3);
  CHECK(sum.samples == 4);
  CHECK_FALSE(sum.nonfinite);
  CHECK(sum.accum_s == 1);
  CHECK(sum.optim_s == 3);
  CHECK(sum.sync_s == 5);
  CHECK(sum.slowest_s == 7);
  CHECK(sum.next_batch == BatchPlan{32, 2});
  CHECK(sum.next_measure);
  CHECK(sum.checkpoint);
  CHECK(sum.local == std::vector<double>{0.25, 8});
  CHECK(sum.used == std::vector<uint32_t>{0x80000000u, 5});
}

TEST_CASE("replicas sum up their reports, and rank 0 decides") {
  std::vector<StepSummary> sums(2);
  comm::testing::with_group(comm::testing::one_host(2), [&](comm::Communicator& group) {
    sums[static_cast<size_t>(group.rank())] = exchange(&group, report(group.rank()));
  });
  for (const StepSummary& sum : sums) {
    CHECK(sum.loss == doctest::Approx(32.0 / 12));
    CHECK(sum.samples == 12);
    CHECK(sum.nonfinite);
    CHECK(sum.accum_s == 1.5);
    CHECK(sum.optim_s == 3.5);
    CHECK(sum.sync_s == 5.5);
    CHECK(sum.slowest_s == 7);
    CHECK(sum.next_batch == BatchPlan{32, 2});
    CHECK(sum.next_measure);
    CHECK(sum.checkpoint);
    CHECK(sum.local == std::vector<double>{1.5, 16});
    CHECK(sum.used == std::vector<uint32_t>{0x80000000u, 7});
  }
}
