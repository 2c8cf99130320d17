// What the scheduler is told of each kind of accelerator.

#include <doctest/doctest.h>

#include "runtime/session/batch_policy.h"

namespace {

using namespace adaptdl;

TrainingSpec adaptive_spec() {
  TrainingSpec spec;
  spec.batch.initial = 16;
  spec.batch.max = spec.batch.atomic_max = 1024;
  spec.batch.adaptive = spec.batch.accumulation = true;
  return spec;
}

void train_on(BatchPolicy& policy, const std::string& kind, double optim_s) {
  policy.profiles().train_on({kind});
  policy.begin_generation();
  StepFacts facts;
  facts.batch = {16, 1};
  facts.summary.optim_s = optim_s;
  for (int i = 0; i < 10; ++i) policy.observe(facts, 1);
}

double seconds(const std::optional<PerfParams>& perf) {
  return perf ? step_time(*perf, 1, 1, 16, 0) : 0;
}

TEST_CASE("hints tell of each kind; the present one's are also those of the job") {
  BatchPolicy policy(adaptive_spec(), 100'000);
  Progress progress;
  CHECK_FALSE(policy.hints(progress));
  train_on(policy, "T4", 0.4);
  policy.profiles().limit("T4", 32);
  progress.atomic_limit = policy.profiles().limit();
  SchedulingHints hints = policy.hints(progress).value();
  CHECK(hints.accelerator == "T4");
  CHECK(hints.atomic_max == 32);
  CHECK(hints.accelerators.at("T4") == AcceleratorHints{hints.perf, 32});

  policy.profiles().train_on({"A100"});
  progress.atomic_limit = policy.profiles().limit();
  CHECK_FALSE(policy.hints(progress));  // nothing is known of it yet
  train_on(policy, "A100", 0.1);
  hints = policy.hints(progress).value();
  CHECK(hints.accelerator == "A100");
  CHECK(hints.atomic_max == 1024);
  REQUIRE(hints.accelerators.size() == 2);
  CHECK(seconds(hints.perf) == doctest::Approx(0.1).epsilon(0.05));
  CHECK(hints.accelerators.at("A100") == AcceleratorHints{hints.perf, 1024});
  CHECK(seconds(hints.accelerators.at("T4").perf) == doctest::Approx(0.4).epsilon(0.05));
  CHECK(hints.accelerators.at("T4").atomic_max == 32);
}

TEST_CASE("on a new kind the batch is the user's until the kind is measured") {
  TrainingSpec spec = adaptive_spec();
  BatchPolicy policy(spec, 100'000);
  Progress progress;
  progress.batch = {16, 1};
  progress.statistics = gns::GradientStatistics(1, spec.statistics);
  for (int i = 0; i < 100; ++i) progress.statistics.update(2, 1, {{200, 10, 10, 0.01}});
  progress.step = progress.fresh = 100;
  progress.proven = 512;
  for (int i = 0; i < 10; ++i) train_on(policy, "T4", 0.4);
  const BatchPlan chosen = policy.for_replicas(progress, 1, 1);
  CHECK(chosen.total(1) > 16);
  policy.profiles().train_on({"A100"});
  CHECK(policy.for_replicas(progress, 1, 1) == policy.initial(1));
  policy.profiles().train_on({"T4"});
  CHECK(policy.for_replicas(progress, 1, 1) == chosen);
}

}  // namespace
