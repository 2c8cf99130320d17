#include "runtime/session/exchange.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
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
  mine.compute_s = 2 + rank;
  mine.step_s = 7 - rank;
  mine.next_batch = {32 + rank, 2 + rank};
  mine.next_measure = rank == 0;
  mine.checkpoint = rank == 0;
  const double bits = 1e-16 * rank;  // of a replica that computes a little differently
  mine.norms = {{0.25 + rank, 0.5 + bits, 0.125 + bits, -0.25 - bits}, {8, 4.0 + rank, 0, 0}};
  mine.used = {0x80000000u, rank == 0 ? 5u : 3u};
  mine.sums = {0.5 + rank};
  return mine;
}

using Rows = std::vector<std::vector<double>>;

Rows rows(const std::vector<GroupNorms>& norms) {
  Rows result;
  for (const GroupNorms& n : norms) result.push_back({n.local, n.total, n.previous, n.product});
  return result;
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
  CHECK(rows(sum.norms) == Rows{{0.25, 0.5, 0.125, -0.25}, {8, 4, 0, 0}});
  CHECK(sum.used == std::vector<uint32_t>{0x80000000u, 5});
  CHECK(sum.sums == std::vector{0.5});
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
    CHECK(rows(sum.norms) == Rows{{1.5, 0.5, 0.125, -0.25}, {16, 4, 0, 0}});
    CHECK(sum.used == std::vector<uint32_t>{0x80000000u, 7});
    CHECK(sum.sums == std::vector{2.0});
    REQUIRE(sum.timings.size() == 2);
    for (size_t r = 0; r < 2; ++r) {
      const auto rank = static_cast<double>(r);
      CHECK(sum.timings[r].compute_s == 2 + rank);
      CHECK(sum.timings[r].samples == 4 + 4 * rank);
      CHECK(sum.timings[r].sync_s == 5 + rank);
    }
  }
}

TEST_CASE("votes: members that differ from most are named, as rank 0 allows") {
  std::vector<Vote> votes(3);
  for (size_t r = 0; r < votes.size(); ++r) {
    votes[r] = {.prepared = 5, .offer = 2, .stop = 0, .digest = 7, .state = 9, .member = 10 + r};
  }
  CHECK(count_votes(votes).switching);
  CHECK(count_votes(votes).diverged.empty());

  votes[0].state = 8;
  CHECK(count_votes(votes).diverged == std::vector<uint64_t>{10});
  votes[2].state = 8;
  CHECK(count_votes(votes).diverged == std::vector<uint64_t>{11});
  votes[0].compare_state = false;
  CHECK(count_votes(votes).diverged.empty());
  votes[0].compare_state = true;
  votes[1].state = 8;
  votes[1].digest = 6;  // another progress
  CHECK(count_votes(votes).diverged == std::vector<uint64_t>{11});
  votes[0].compare_state = false;
  CHECK(count_votes(votes).diverged == std::vector<uint64_t>{11});

  // It is the same when the step is repeated: they cannot train together.
  votes[0].repeated = true;
  CHECK_THROWS_AS(count_votes(votes), Error);
  votes[1].digest = 7;
  CHECK(count_votes(votes).diverged.empty());
  votes[2].prepared = 6;
  CHECK_THROWS_AS(count_votes(votes), Error);
}

TEST_CASE("of two that differ, rank 0 is right") {
  std::vector<Vote> votes(2);
  votes[0] = {.state = 1, .member = 4};
  votes[1] = {.state = 2, .member = 3};
  CHECK(count_votes(votes).diverged == std::vector<uint64_t>{3});
}
