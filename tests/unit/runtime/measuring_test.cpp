// Which steps are measured, and which of them in halves.

#include "runtime/session/measuring.h"

#include <doctest/doctest.h>
#include <vector>

namespace {

using namespace adaptdl;

TrainingSpec adaptive() {
  TrainingSpec spec;
  spec.batch.initial = 32;
  spec.batch.max = spec.batch.atomic_max = 1024;
  spec.batch.adaptive = spec.batch.accumulation = true;
  return spec;
}

Progress with(int64_t atomic, int64_t batch_since = 0) {
  Progress progress;
  progress.batch = {atomic, 1};
  progress.batch_since = batch_since;
  return progress;
}

}  // namespace

TEST_CASE("a lone replica measures each step that it computes in halves") {
  const TrainingSpec spec = adaptive();
  for (const int64_t since : {0, 7, 40}) {
    const Progress progress = with(32, since);
    int halved = 0, first = 0;
    for (int64_t step = since + 1; step <= since + 1000; ++step) {
      if (!in_halves(spec, progress, 1, step)) continue;
      ++halved;
      if (step <= since + 24) ++first;
      CHECK(measures(spec, progress, 1, step, {1, 0.01}));
    }
    CHECK(first == 12);  // what the next change waits for, and a few to spare
    CHECK(halved - first <= 16);
    CHECK(halved - first >= 15);
  }
}

TEST_CASE("no step is in halves where several passes are not allowed, or are taken anyway") {
  const auto halved = [](const TrainingSpec& spec, const Progress& progress, int replicas) {
    int count = 0;
    for (int64_t step = 1; step <= 200; ++step) count += in_halves(spec, progress, replicas, step);
    return count;
  };
  CHECK(halved(adaptive(), with(32), 1) > 0);
  CHECK(halved(adaptive(), with(kSmallestHalved - 1), 1) == 0);
  Progress passes = with(32);
  passes.batch.micro_steps = 2;
  CHECK(halved(adaptive(), passes, 1) == 0);
  for (const auto change :
       {+[](TrainingSpec& spec) { spec.batch.adaptive = false; },
        +[](TrainingSpec& spec) { spec.batch.accumulation = false; },
        +[](TrainingSpec& spec) { spec.statistics = TrainingSpec::Averaging::adaptdl; }}) {
    TrainingSpec spec = adaptive();
    change(spec);
    CHECK(halved(spec, with(32), 1) == 0);
  }
}

TEST_CASE("several replicas compute some of a run's first steps in halves, and measure these") {
  const TrainingSpec spec = adaptive();
  const Progress progress = with(32);
  int halved = 0;
  for (int64_t step = 1; step <= 200; ++step) {
    if (!in_halves(spec, progress, 3, step)) continue;
    ++halved;
    CHECK(step <= 16);
    CHECK(measures(spec, progress, 3, step, {1, 0.01}));
  }
  CHECK(halved == 8);
}
