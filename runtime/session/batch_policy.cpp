#include "runtime/session/batch_policy.h"

#include <algorithm>
#include <fmt/format.h>

#include "runtime/session/measuring.h"

namespace adaptdl {
namespace {

// Interval of fitting and evaluating the model, which takes less than a millisecond.
constexpr int64_t kStepsBetweenChoices = 20;
constexpr int64_t kQuickToValidate = 128;  // samples

// A batch of more than all samples cannot be filled.
BatchBounds bounds_of(const TrainingSpec& spec, int64_t samples) {
  const BatchSpec& batch = spec.batch;
  BatchBounds bounds{batch.initial, std::max(batch.initial, std::min(batch.max, samples)),
                     batch.atomic_min, batch.atomic_max, batch.accumulation};
  bounds.halves_alone = measures_halves_alone(spec);
  return bounds;
}

BatchPlan plan_of(const BatchChoice& choice) {
  return {choice.atomic, choice.accum_steps + 1};
}

}  // namespace

BatchPolicy::BatchPolicy(const TrainingSpec& spec, int64_t samples)
    : bounds_(bounds_of(spec, samples)),
      chooser_(bounds_, spec.batch.adaptive),
      spec_(spec.batch),
      shards_(spec.shards()) {}

// Each shard is a pass of its replica.
BatchPlan BatchPolicy::of_shards(int replicas) const {
  return {(spec_.initial + shards_ - 1) / shards_, std::max(1, (shards_ + replicas - 1) / replicas),
          spec_.initial};
}

BatchPlan BatchPolicy::initial(int replicas, int64_t atomic_limit) const {
  if (shards_ > 0) return of_shards(replicas);
  return plan_of(chooser_.spread(replicas, atomic_limit));
}

std::string BatchPolicy::shortfall(const BatchPlan& batch, int replicas) const {
  const int64_t total = batch.total(replicas);
  const bool limited = !spec_.accumulation && batch.atomic >= spec_.atomic_max;
  if (!limited || total >= spec_.initial) return "";
  return fmt::format(
      "a step has {} samples, fewer than batch.initial, {}: {} replica{} at most "
      "batch.atomic_max, {}, without gradient accumulation; raise batch.atomic_max, or train with "
      "more replicas",
      total, spec_.initial, replicas, replicas == 1 ? " takes" : "s take each", spec_.atomic_max);
}

BatchKnowledge BatchPolicy::knowledge(const Progress& progress, int nodes, int replicas) const {
  BatchKnowledge known;
  known.perf = profiles_.fit();
  known.grad = progress.statistics.cautious();
  known.timed_steps = profiles_.steps(nodes, replicas, progress.batch.atomic);
  known.gradient_samples = progress.statistics.samples();
  known.fresh_samples = progress.fresh;
  known.proven_batch = progress.proven;
  known.atomic_limit = progress.atomic_limit;
  return known;
}

BatchPlan BatchPolicy::for_replicas(const Progress& progress, int nodes, int replicas) {
  last_choice_ = progress.step;
  if (shards_ > 0) {
    cause_ = fmt::format("{} shards for {} replica{}", shards_, replicas, replicas == 1 ? "" : "s");
    if (replicas > shards_) cause_ += fmt::format(", {} of them idle", replicas - shards_);
    return of_shards(replicas);
  }
  const BatchChoice choice = chooser_.start(nodes, replicas, knowledge(progress, nodes, replicas));
  predicted_ = choice.goodput;
  const std::string among = fmt::format("{} replica{}", replicas, replicas == 1 ? "" : "s");
  cause_ = choice.goodput > 0 ? "best predicted goodput with " + among
           : replicas > 1     ? "shared among " + among
                              : "all on 1 replica";
  if (progress.atomic_limit > 0) {
    cause_ +=
        fmt::format(", at most {} samples in one pass, as memory ran out", progress.atomic_limit);
  }
  return plan_of(choice);
}

BatchPlan BatchPolicy::next(const Progress& progress, int nodes, int replicas) {
  if (!spec_.adaptive || progress.step < last_choice_ + kStepsBetweenChoices) return progress.batch;
  last_choice_ = progress.step;
  const BatchChoice present{progress.batch.atomic, progress.batch.micro_steps - 1, 0};
  const auto better =
      chooser_.improve(nodes, replicas, present, knowledge(progress, nodes, replicas));
  if (!better) return progress.batch;
  predicted_ = better->goodput;
  cause_ = fmt::format("predicted goodput {:.1f} times as high", better->times);
  return plan_of(*better);
}

int64_t BatchPolicy::to_validate(int64_t atomic, int64_t atomic_limit) const {
  const int64_t most = std::max(atomic, std::min(spec_.atomic_max, kQuickToValidate));
  return atomic_limit > 0 && shards_ == 0 ? std::min(most, atomic_limit) : most;
}

std::optional<int64_t> BatchPolicy::smaller_atomic(int64_t atomic) const {
  if (shards_ > 0 || atomic <= spec_.atomic_min) return std::nullopt;
  return std::max(spec_.atomic_min, atomic / 2);
}

void BatchPolicy::observe(const StepFacts& facts, int nodes) {
  if (!facts.whole) return;
  StepTiming timing{nodes,
                    facts.replicas,
                    facts.batch.atomic,
                    facts.batch.micro_steps - 1,
                    facts.summary.accum_s,
                    facts.summary.optim_s,
                    facts.summary.sync_s};
  if (facts.halved) {
    // Two passes of half the samples: with the whole ones they tell the fixed time of a pass, by
    // which alone a larger batch can pay, before any larger one was tried.
    timing.atomic = (timing.atomic + 1) / 2;
    timing.accum_steps = 1;
    timing.halved = true;
  }
  profiles_.present().record(timing);
}

std::optional<SchedulingHints> BatchPolicy::hints(const Progress& progress) const {
  const std::map<std::string, PerfParams> fits = profiles_.fits();
  const auto here = fits.find(profiles_.kind());
  if (here == fits.end()) return std::nullopt;
  SchedulingHints hints;
  hints.initial_batch = spec_.initial;
  hints.atomic_min = spec_.atomic_min;
  hints.atomic_max = spec_.atomic_max > 0 ? spec_.atomic_max : spec_.max;
  if (hints.atomic_max == 0) hints.atomic_max = spec_.initial;
  const auto within = [&](int64_t limit) {
    return limit == 0 ? *hints.atomic_max
                      : std::max(spec_.atomic_min, std::min(*hints.atomic_max, limit));
  };
  for (const auto& [kind, perf] : fits) {
    if (kind.empty()) continue;
    hints.accelerators[kind] = {
        perf, within(kind == profiles_.kind() ? progress.atomic_limit : profiles_.limit_of(kind))};
  }
  hints.accelerator = profiles_.kind();
  hints.atomic_max = within(progress.atomic_limit);
  hints.max_profiled_replicas = profiles_.max_replicas();
  hints.accumulation = spec_.accumulation || progress.atomic_limit > 0;
  hints.halves_alone = bounds_.halves_alone;
  hints.perf = here->second;
  if (!spec_.adaptive) return hints;
  hints.max_batch = bounds_.max;
  if (!progress.statistics.empty()) hints.grad = progress.statistics.published();
  return hints;
}

}  // namespace adaptdl
