#include "runtime/profile/batch_chooser.h"

#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <vector>

#include "core/base/error.h"

namespace adaptdl {
namespace {

const BatchBounds kBounds{32, 2048, 1, 128, true};
const PerfParams kPerf{0.02, 0.0002, 0.1, 0.001, 0.05, 0.0008, 1.5};

BatchKnowledge known(double sqr, double var) {
  BatchKnowledge result;
  result.perf = kPerf;
  result.grad = {sqr, var};
  result.timed_steps = result.gradient_samples = result.fresh_samples = 100;
  result.proven_batch = kBounds.max;
  return result;
}

TEST_CASE("the user's batch is spread evenly, with as few passes as fit") {
  const BatchChooser chooser({96, 96, 1, 16, true}, false);
  for (const auto& [replicas, atomic, passes] :
       {std::tuple{1, 16, 6}, {2, 16, 3}, {3, 16, 2}, {4, 12, 2}, {6, 16, 1}, {96, 1, 1}}) {
    const BatchChoice choice = chooser.spread(replicas);
    CHECK(choice.atomic == atomic);
    CHECK(choice.accum_steps == passes - 1);
    CHECK(replicas * choice.atomic * (choice.accum_steps + 1) == 96);
  }
  CHECK(BatchChooser({10, 10, 1, 0, false}, false).spread(3).atomic == 4);
  CHECK(BatchChooser({10, 10, 2, 0, false}, false).spread(100).atomic == 2);
}

TEST_CASE("without adaptation the batch stays") {
  const BatchChooser chooser(kBounds, false);
  CHECK(chooser.start(1, 2, known(1, 1e6)) == chooser.spread(2));
  CHECK(!chooser.improve(1, 2, chooser.spread(2), known(1, 1e6)));
}

TEST_CASE("noisy gradients grow the batch, once enough is known") {
  const BatchChooser chooser(kBounds, true);
  const BatchChoice first = chooser.spread(2);
  BatchKnowledge knowledge = known(1, 1e4);
  const auto better = chooser.improve(1, 2, first, knowledge);
  REQUIRE(better);
  CHECK(better->atomic * (better->accum_steps + 1) > first.atomic);
  CHECK(chooser.start(1, 2, knowledge) == *better);
  // It is settled then.
  CHECK(better->times > BatchChooser::kWorthwhile);
  CHECK(!chooser.improve(1, 2, *better, knowledge));

  knowledge.timed_steps = BatchChooser::kEnough - 1;
  CHECK(!chooser.improve(1, 2, first, knowledge));
  knowledge = known(1, 1e4);
  knowledge.fresh_samples = BatchChooser::kEnough - 1;
  CHECK(!chooser.improve(1, 2, first, knowledge));
  knowledge.gradient_samples = BatchChooser::kEnough - 1;
  CHECK(chooser.start(1, 2, knowledge) == first);
  knowledge = known(1, 1e4);
  knowledge.perf.reset();
  CHECK(!chooser.improve(1, 2, first, knowledge));
  CHECK(chooser.start(1, 2, knowledge) == first);
}

TEST_CASE("a batch at most doubles the largest that was measured") {
  const BatchChooser chooser(kBounds, true);
  BatchKnowledge knowledge = known(1, 1e9);
  knowledge.proven_batch = 0;
  BatchChoice present = chooser.spread(2);
  std::vector<int64_t> totals;
  while (const auto better = chooser.improve(1, 2, present, knowledge)) {
    present = static_cast<const BatchChoice&>(*better);
    totals.push_back(2 * present.atomic * (present.accum_steps + 1));
    knowledge.proven_batch = totals.back();
  }
  CHECK(totals == std::vector<int64_t>{64, 128, 256, 512, 1024, 2048});
  knowledge.proven_batch = 100;
  CHECK(chooser.start(1, 4, knowledge).atomic == 50);  // new replicas are no reason to leap
}

TEST_CASE("a limit of memory makes smaller passes, not smaller batches") {
  const BatchChooser chooser(kBounds, true);
  CHECK(chooser.spread(2, 4).atomic == 4);
  CHECK(chooser.spread(2, 4).accum_steps == 3);
  BatchKnowledge knowledge = known(1, 1e4);
  const BatchChoice before = chooser.start(1, 2, knowledge);
  knowledge.atomic_limit = 10;
  const BatchChoice after = chooser.start(1, 2, knowledge);
  CHECK(before.atomic > 10);
  CHECK(after.atomic <= 10);
  CHECK(after.atomic * (after.accum_steps + 1) * 2 > 32);
  // Also where several passes were not allowed: else memory would end the run.
  const BatchChoice forced = BatchChooser({32, 64, 1, 32, false}, false).spread(1, 8);
  CHECK(forced.atomic == 8);
  CHECK(forced.accum_steps == 3);
}

TEST_CASE("clean gradients keep the batch small") {
  const BatchChooser chooser(kBounds, true);
  const BatchChoice choice = chooser.start(1, 1, known(1e3, 1e-3));
  CHECK(choice.atomic * (choice.accum_steps + 1) == 32);
}

TEST_CASE("a change comes only for more than 5 % of goodput, and to a feasible batch") {
  std::mt19937_64 engine(51);
  const auto pick = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(engine));
  };
  const BatchChooser chooser(kBounds, true);
  int changes = 0, kept = 0;
  for (int i = 0; i < 2000; ++i) {
    const BatchKnowledge knowledge = known(pick(1e-3, 10), pick(1e-3, 1e3));
    const int replicas = 1 + i % 7;
    const BatchChoice present{static_cast<int64_t>(pick(16, 128)), i % 3, 0};
    const GoodputModel model(*knowledge.perf, knowledge.grad, 32);
    const double now = model.evaluate(1, replicas, double(present.atomic), present.accum_steps);
    const auto better = chooser.improve(1, replicas, present, knowledge);
    if (better) {
      ++changes;
      CHECK(better->goodput > 1.05 * now);
      CHECK(better->atomic >= 1);
      CHECK(better->atomic <= 128);
      CHECK(!chooser.improve(1, replicas, *better, knowledge));
    } else {
      ++kept;
      CHECK(chooser.start(1, replicas, knowledge).goodput <= 1.05 * now * (1 + 1e-12));
    }
  }
  CHECK(changes > 100);
  CHECK(kept > 100);
}

TEST_CASE("bounds that do not fit together are refused") {
  CHECK_THROWS_AS(BatchChooser({0, 10, 1, 0, true}, true), Error);
  CHECK_THROWS_AS(BatchChooser({32, 16, 1, 0, true}, true), Error);
  CHECK_THROWS_AS(BatchChooser({32, 64, 16, 8, true}, true), Error);
}

}  // namespace
}  // namespace adaptdl
