// What a lone replica's batch may grow by.

#include "runtime/session/batch_policy.h"

#include <doctest/doctest.h>

namespace {

using namespace adaptdl;
using Averaging = TrainingSpec::Averaging;

TrainingSpec adaptive(Averaging averaging, bool accumulation) {
  TrainingSpec spec;
  spec.batch.initial = 16;
  spec.batch.max = spec.batch.atomic_max = 1024;
  spec.batch.adaptive = true;
  spec.batch.accumulation = accumulation;
  spec.statistics = averaging;
  return spec;
}

// The next batch of a lone replica after steps whose gradients are mostly noise, and that take as
// long with more samples.
BatchPlan next_batch(const TrainingSpec& spec, int64_t atomic_limit = 0) {
  BatchPolicy policy(spec, 100'000);
  Progress progress;
  progress.batch = policy.for_replicas(progress, 1, 1);
  progress.atomic_limit = atomic_limit;
  progress.statistics = gns::GradientStatistics(1, spec.statistics);
  StepFacts facts;
  facts.batch = progress.batch;
  facts.summary.optim_s = 0.1;
  for (int i = 0; i < 100; ++i) {
    policy.observe(facts, 1);
    progress.statistics.update(1, 1, {{0, 10, 10, 0.01}});
  }
  progress.step = progress.fresh = 100;
  progress.proven = 256;  // with more replicas, before
  return policy.next(progress, 1, 1);
}

}  // namespace

TEST_CASE("a lone replica that measures no halves takes two passes above the initial batch") {
  const BatchPlan recent = next_batch(adaptive(Averaging::recent, true));
  CHECK(recent.total(1) > 16);
  CHECK(recent.micro_steps == 1);
  const BatchPlan as_adaptdl = next_batch(adaptive(Averaging::adaptdl, true));
  CHECK(as_adaptdl.total(1) > 16);
  CHECK(as_adaptdl.micro_steps == 2);
  // Without accumulation its batch stays; want of memory allows passes, but no halves.
  for (const Averaging averaging : {Averaging::recent, Averaging::adaptdl}) {
    CHECK(next_batch(adaptive(averaging, false)) == BatchPlan{16, 1});
    CHECK(next_batch(adaptive(averaging, false), 512).micro_steps == 2);
  }
}

TEST_CASE("the scheduler expects of a lone replica the batch that it takes") {
  for (const Averaging averaging : {Averaging::recent, Averaging::adaptdl}) {
    const TrainingSpec spec = adaptive(averaging, true);
    BatchPolicy policy(spec, 100'000);
    Progress progress;
    progress.batch = policy.for_replicas(progress, 1, 1);
    progress.statistics = gns::GradientStatistics(1, spec.statistics);
    StepFacts facts;
    facts.batch = progress.batch;
    facts.summary.optim_s = 0.1;
    for (int i = 0; i < 100; ++i) policy.observe(facts, 1);
    const auto hints = policy.hints(progress);
    REQUIRE(hints);
    const auto batch = job_hints(*hints).batch;
    REQUIRE(batch);
    CHECK(batch->accumulation);
    CHECK(batch->halves_alone == (averaging == Averaging::recent));
  }
}

TEST_CASE("without accumulation, a batch that too few replicas can take is told") {
  TrainingSpec spec;
  spec.batch.initial = spec.batch.max = 256;
  spec.batch.atomic_max = 64;
  const auto told = [&spec](int replicas) {
    const BatchPolicy policy(spec, 100'000);
    return policy.shortfall(policy.initial(replicas), replicas);
  };
  CHECK(told(1).empty());
  spec.batch.accumulation = false;
  CHECK(told(1) ==
        "a step has 64 samples, fewer than batch.initial, 256: 1 replica takes at most "
        "batch.atomic_max, 64, without gradient accumulation; raise batch.atomic_max, or train "
        "with more replicas");
  CHECK(told(3).find("192 samples") != std::string::npos);
  CHECK(told(4).empty());
  CHECK(told(7).empty());
}

TEST_CASE("a batch does not grow where steps in halves show that time grows with the samples") {
  const TrainingSpec spec = adaptive(Averaging::recent, true);
  // Steps of `whole_s` seconds, and halves of `half_s` between them.
  const auto after = [&](double whole_s, double half_s) {
    BatchPolicy policy(spec, 100'000);
    Progress progress;
    progress.batch = policy.for_replicas(progress, 1, 1);
    progress.statistics = gns::GradientStatistics(1, spec.statistics);
    for (int i = 0; i < 100; ++i) {
      StepFacts facts;
      facts.batch = progress.batch;
      facts.halved = i % 2 == 1;
      facts.summary.optim_s = facts.halved ? half_s : whole_s;
      facts.summary.accum_s = facts.halved ? half_s : 0;
      policy.observe(facts, 1);
      progress.statistics.update(2, 1, {{10, 5.1, 0, 0}});
    }
    progress.step = progress.fresh = 100;
    return policy.next(progress, 1, 1);
  };
  CHECK(after(0.1, 0.05) == BatchPlan{16, 1});
  CHECK(after(0.1, 0.08).total(1) == 32);
}
