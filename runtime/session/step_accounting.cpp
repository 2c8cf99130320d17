#include "runtime/session/step_accounting.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "runtime/gns/scaling_rule.h"
#include "runtime/profile/batch_chooser.h"
#include "runtime/session/stop_rules.h"

namespace adaptdl {

double iterations_per_epoch(const TrainingSpec& spec, int64_t samples) {
  const double iterations = static_cast<double>(samples) / static_cast<double>(spec.batch.initial);
  // In several passes a step may have less.
  const BatchSpec& batch = spec.batch;
  const bool one_pass =
      !batch.accumulation || batch.atomic_max == 0 || batch.atomic_max >= batch.initial;
  const bool whole_batches = spec.data.drop_last || spec.data.continuous;
  return whole_batches && one_pass && iterations > 1 ? std::floor(iterations) : iterations;
}

void StepAccounting::add_statistics(Prepared& prepared, const Progress& before,
                                    const std::vector<data::Step>& steps, bool compared) const {
  Progress& after = prepared.after;
  const StepFacts& facts = prepared.facts;
  // Each half is a sample; otherwise a replica has one in each pass that has data for it.
  int gradient_samples = 0;
  for (const auto& step : steps) {
    gradient_samples += (facts.halved ? 2 : 1) * step.sharers;
  }
  const double scale = facts.summary.samples / static_cast<double>(spec_.batch.initial);
  // Successive gradients are compared if both are of a whole step.
  if (gradient_samples == 1 && !(facts.whole && compared)) return;
  std::vector<gns::GroupSample> groups;
  for (const GroupNorms& norms : facts.summary.norms) {
    groups.push_back({norms.local, norms.total, norms.previous, norms.product});
  }
  const double stands_for =
      static_cast<double>(std::max<int64_t>(before.step - before.last_measured, 1));
  after.last_measured = before.step;
  if (!after.statistics.update(gradient_samples, scale, groups, stands_for)) return;
  if (facts.whole && ++after.fresh >= BatchChooser::kEnough) {
    after.proven = std::max(after.proven, facts.batch.total(facts.replicas));
  }
}

double StepAccounting::epochs(const Progress& progress) const {
  if (spec_.batch.adaptive) return progress.iterations / iterations_per_epoch();
  return static_cast<double>(progress.position.epoch) +
         static_cast<double>(progress.position.index) / samples_;
}

// With a fixed batch training ends by passes, and so do schedules: a step counts by its samples,
// skipped or not, and each pass as an epoch, also if its steps do not add up to one (batches that
// are larger than the initial one, and drop what is left).
double StepAccounting::iterations_after(double before, const data::Step& last, double scale) const {
  const auto epoch = static_cast<double>(last.from.epoch);
  const double begin = epoch * iterations_per_epoch(), end = (epoch + 1) * iterations_per_epoch();
  return last.ends_pass ? end : std::min(std::max(before, begin) + scale, end);
}

// Moves the position past the step, and counts epochs. `iterations`: those after it.
void StepAccounting::advance(Progress& after, const data::Step& last, double iterations) const {
  after.iterations = iterations;
  after.position = last.next;
  bool epoch_over = false;
  const auto epoch = static_cast<double>(after.position.epoch);
  if (spec_.batch.adaptive) {
    epoch_over = epochs(after) + kRounding >= epoch + 1;
    if (!epoch_over && last.ends_pass) {
      after.position = data::next_pass(last.from);
    }
  } else {
    epoch_over = last.ends_pass;
  }
  if (epoch_over) after.position = data::next_epoch(last.from);
  const double done = epochs(after);
  after.ended_by = reached_limit(after, spec_, done);
  after.finished = after.ended_by != EndedBy::nothing;
  if (done + kRounding >= after.next_validation || after.finished) {
    after.validate = true;
    while (after.next_validation <= done + kRounding) {
      after.next_validation += spec_.validate_every_epochs;
    }
  }
}

void StepAccounting::set_rates(Prepared& prepared, const Progress& before) const {
  const auto initial = static_cast<double>(spec_.batch.initial);
  const auto batch = static_cast<double>(before.batch.total(prepared.facts.replicas));
  const double rate_scale =
      gns::rate_scale(batch / initial, prepared.facts.summary.samples / initial);
  const double schedule = schedule_.factor(before.iterations);
  prepared.momentum = schedule_.momentum(before.iterations);
  for (int g = 0; g < optimizer_.group_count(); ++g) {
    const double gain = prepared.after.statistics.gain(rate_scale, g);
    std::optional<double> factor;
    if (!spec_.rule) {
      factor = program_.lr_factor(
          {rate_scale, gain, before.iterations, iterations_per_epoch(), optimizer_.entry_of(g)});
    }
    if (factor && !(std::isfinite(*factor) && *factor > 0)) {
      fail("the program's scaling rule returned {}; it must be a finite number above 0", *factor);
    }
    if (!factor) {
      factor = gns::lr_factor(
          spec_.rule.value_or(optimizer_.scaling_rule(g)),
          {rate_scale, gain, before.iterations, spec_.legw_warmup_epochs, iterations_per_epoch()});
    }
    prepared.lr_factors.push_back(schedule * *factor);
  }
}

double StepAccounting::next_lr(const Progress& progress, int replicas) const {
  Prepared next;
  next.after.statistics = progress.statistics;
  next.facts.replicas = replicas;
  next.facts.summary.samples = static_cast<double>(progress.batch.total(replicas));
  set_rates(next, progress);
  return optimizer_.base_lr(0) * next.lr_factors[0];
}

void StepAccounting::end_step(Prepared& prepared, const Progress& before,
                              const std::vector<data::Step>& steps,
                              const std::vector<std::string>& sums) const {
  Progress& after = prepared.after;
  StepFacts& facts = prepared.facts;
  const StepSummary& summary = facts.summary;
  const double scale = summary.samples / static_cast<double>(spec_.batch.initial);
  // A smaller batch than the initial one has less noise to average, but is worth no more than its
  // samples: the efficiency is relative to the initial batch, and an epoch of such is D / M0.
  const double gain = facts.skipped() ? 0 : std::min(after.statistics.gain(scale), scale);
  ++after.step;
  after.trained_s += summary.slowest_s;
  after.measure = summary.next_measure;
  if (facts.skipped()) {
    ++after.skipped;
    // A smaller loss scale may help.
    if (before.loss_scale.factor == 1) ++after.skipped_in_a_row;
  } else {
    after.skipped_in_a_row = 0;
    after.epoch_loss_sum += summary.loss * summary.samples;
    after.epoch_samples += summary.samples;
  }
  const data::Position& from = steps.front().from;
  if (from.pass == 0 && from.index == 0) after.sums.clear();
  for (size_t i = 0; i < sums.size(); ++i) after.sums[sums[i]] += summary.sums[i];
  // With an adaptive batch a skipped step makes no progress, but consumes its samples.
  advance(after, steps.back(),
          spec_.batch.adaptive ? before.iterations + gain
                               : iterations_after(before.iterations, steps.back(), scale));
  if (summary.next_batch.atomic > 0 && summary.next_batch != before.batch) {
    after.batch = summary.next_batch;
    after.batch_since = after.step;
    after.fresh = 0;
  }

  facts.step = after.step;
  facts.iterations = after.iterations;
  facts.total_iterations = expected_iterations(after, spec_, iterations_per_epoch() * spec_.epochs);
  facts.lr = optimizer_.base_lr(0) * prepared.lr_factors[0];
  facts.gain = gain;
  facts.efficiency = gain / scale;
  if (!after.statistics.empty() && after.statistics.sqr() > 0) {
    facts.noise_scale =
        after.statistics.var() / after.statistics.sqr() * static_cast<double>(spec_.batch.initial);
  }
}

}  // namespace adaptdl
