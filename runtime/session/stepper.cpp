#include "runtime/session/stepper.h"

#include <algorithm>
#include <cmath>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/gns/scaling_rule.h"
#include "runtime/profile/batch_chooser.h"
#include "runtime/session/batches.h"
#include "runtime/session/measuring.h"
#include "runtime/session/stop_rules.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

data::Sampler make_sampler(const TrainingSpec& spec, const data::Dataset& dataset) {
  data::SamplerOptions options;
  options.seed = spec.seed;
  options.shuffle = spec.data.shuffle && !dataset.in_order();
  options.drop_last = spec.data.drop_last;
  // With an adaptive batch an epoch ends by progress and may use the data more than once.
  options.after = spec.batch.adaptive ? data::AfterPass::next_pass : data::AfterPass::next_epoch;
  return data::Sampler(dataset.size(), options);
}

data::LoaderOptions loader_options(const TrainingSpec& spec) {
  data::LoaderOptions options;
  options.threads = spec.data.prefetch_threads;
  options.ready_batches = spec.data.prefetch_batches;
  return options;
}

// The state of a generator depends only on (seed, step, rank), so that it need not be saved and is
// correct after any rescale.
void seed_generators(uint64_t seed, int64_t step, int rank) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(step) * 0xBF58476D1CE4E5B9u +
               static_cast<uint64_t>(rank);
  x ^= x >> 31;
  x *= 0x94D049BB133111EBu;
  x ^= x >> 29;
  at::manual_seed(x);
}

void check_loss(const at::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1) {
    fail("the loss must be one number; its shape is {}",
         loss.defined() ? c10::str(loss.sizes()) : "undefined");
  }
  if (!loss.is_floating_point()) {
    fail("the loss must be a floating-point number, not {}", at::toString(loss.scalar_type()));
  }
  if (!loss.requires_grad()) {
    fail("the loss has no gradient: it does not depend on a parameter that requires one");
  }
}

}  // namespace

Stepper::Stepper(Program& program, Optimizer& optimizer, Schedule& schedule,
                 const TrainingSpec& spec, const data::Dataset& dataset, at::Device device,
                 StepHooks& hooks)
    : program_(program),
      optimizer_(optimizer),
      schedule_(schedule),
      spec_(spec),
      device_(device),
      hooks_(hooks),
      loader_(dataset, make_sampler(spec, dataset), loader_options(spec)),
      gradients_(program.parameters(), optimizer),
      saved_buffers_(program),
      iterations_per_epoch_(static_cast<double>(dataset.size()) /
                            static_cast<double>(spec.batch.initial)) {}

void Stepper::check_program(const BatchPlan& batch) {
  saved_buffers_.save();
  program_.train(true);
  loader_.configure({}, 1, 0, batch.atomic);
  const auto first = loader_.next();
  ADAPTDL_CHECK(first.has_value());
  const auto tensors = to_tensors(*first, device_);
  // With the second pass TorchScript's optimiser is done, so that the first real step of a new
  // replica is fast.
  for (int pass = 0; pass < 2; ++pass) {
    forward(tensors).backward();
  }
  gradients_.clear();
  saved_buffers_.restore();
}

void Stepper::read_ahead(const Progress& progress, const Team& team) {
  loader_.configure(progress.position, team.replicas, team.rank, progress.batch.atomic,
                    progress.batch.micro_steps);
}

// The micro-batches of the next step: as many as planned, or fewer at the end of a pass.
std::vector<data::Step> Stepper::plan_passes(const Progress& progress, const Team& team) const {
  std::vector<data::Step> steps;
  data::Position position = progress.position;
  for (int micro = 0; micro < progress.batch.micro_steps; ++micro) {
    steps.push_back(loader_.sampler().step(position, team.replicas, team.rank,
                                           progress.batch.atomic,
                                           /*more=*/micro + 1 < progress.batch.micro_steps));
    if (steps.back().ends_pass) break;
    position = steps.back().next;
  }
  return steps;
}

at::Tensor Stepper::forward(const std::vector<at::Tensor>& batch) {
  const Autocast autocast(device_, spec_.precision);
  at::Tensor loss = program_.training_step(batch);
  check_loss(loss);
  return loss;
}

void Stepper::begin(const Progress& progress, const Team& team) {
  ADAPTDL_CHECK(!running_);
  const auto begun = Monotonic::now();
  seed_generators(spec_.seed, progress.step, team.rank);
  read_ahead(progress, team);
  running_.emplace(Running{.begun = begun, .before = &progress, .team = team});
  Running& run = *running_;
  run.steps = plan_passes(progress, team);
  saved_buffers_.save();
  const int64_t whole = progress.batch.total(team.replicas);
  // On several replicas only if all have as many samples; a lone one may have a rest of a pass.
  run.halves = progress.measure && run.steps.size() == 1 &&
               run.steps.front().samples >= kSmallestHalved &&
               (team.replicas == 1 || run.steps.front().consumed == whole) &&
               in_halves(spec_, progress, team.replicas, progress.step + 1);
  for (const auto& step : run.steps) run.samples += static_cast<double>(step.consumed);
  run.passes = static_cast<int>(run.steps.size()) * (run.halves ? 2 : 1);
  gradients_.begin(team.communicator, run.passes, progress.measure, progress.loss_scale.factor);
}

bool Stepper::computed() const {
  return running_ && running_->done == running_->passes;
}

Pass Stepper::load_pass() {
  Running& run = *running_;
  const auto batch = loader_.next();
  ADAPTDL_CHECK(batch && batch->step.from == run.steps[run.loaded].from);
  ++run.loaded;
  run.pass_begun = Monotonic::now();
  const int64_t samples = batch->step.samples;
  if (samples == 0) return {};
  Pass whole{to_tensors(*batch, device_), samples};
  if (!run.halves) return whole;
  const int64_t first = (samples + 1) / 2;
  Pass front{{}, first}, back{{}, samples - first};
  for (const at::Tensor& tensor : whole.batch) {
    front.batch.push_back(tensor.narrow(0, 0, first));
    back.batch.push_back(tensor.narrow(0, first, samples - first));
  }
  run.second_half = std::move(back);
  return front;
}

std::optional<Pass> Stepper::next_pass() {
  Running& run = *running_;
  while (run.done < run.passes) {
    Pass pass;
    if (run.second_half) {
      pass = std::move(*run.second_half);
      run.second_half.reset();
      run.pass_begun = Monotonic::now();
    } else {
      pass = load_pass();
    }
    run.pass_samples = pass.samples;
    run.weight = static_cast<double>(pass.samples) * run.team.replicas / run.samples;
    gradients_.begin_micro_step(run.done, run.weight);
    if (pass.samples > 0) {
      autocast_.emplace(device_, spec_.precision);
      return pass;
    }
    end_pass();
  }
  return {};
}

void Stepper::backward(const at::Tensor& loss) {
  Running& run = *running_;
  autocast_.reset();
  check_loss(loss);
  const double scale = run.before->loss_scale.factor;
  const at::Tensor wide = scale == 1 ? loss : loss.to(at::kFloat);  // 16 bits would overflow
  (run.weight * scale == 1 ? wide : wide * (run.weight * scale)).backward();
  const double value = loss.item<double>() * static_cast<double>(run.pass_samples);
  run.report.samples += static_cast<double>(run.pass_samples);
  run.report.loss_sum += value;
  run.report.nonfinite |= !std::isfinite(value);
  end_pass();
}

void Stepper::end_pass() {
  Running& run = *running_;
  gradients_.end_micro_step();
  const StepHooks::Pass pass{run.pass_begun, run.team.replicas, run.steps.front().samples};
  hooks_.computed(pass);
  if (++run.done < run.passes) {
    run.report.accum_s += seconds_since(run.pass_begun) / (run.passes - 1);
    return;
  }
  const auto backward_done = Monotonic::now();
  gradients_.finish();
  hooks_.synchronised(pass);
  run.report.sync_s = seconds_since(backward_done);
  run.report.optim_s = seconds_since(run.pass_begun);
}

void Stepper::update_statistics(Progress& after, const Progress& before, const StepFacts& facts,
                                const std::vector<data::Step>& steps) {
  // Each half is a sample; otherwise a replica has one in each pass that has data for it.
  int gradient_samples = 0;
  for (const auto& step : steps) {
    gradient_samples += (facts.halved ? 2 : 1) * step.sharers;
  }
  const double scale = facts.summary.samples / static_cast<double>(spec_.batch.initial);
  // Successive gradients are compared if both are of a whole step.
  if (gradient_samples == 1 && !(facts.whole && gradients_.has_previous())) return;
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

double Stepper::epochs(const Progress& progress) const {
  if (spec_.batch.adaptive) return progress.iterations / iterations_per_epoch_;
  return static_cast<double>(progress.position.epoch) +
         static_cast<double>(progress.position.index) /
             static_cast<double>(loader_.sampler().samples());
}

// Moves the position past the step, and counts epochs.
void Stepper::advance(Progress& after, const data::Step& last, double gain) const {
  after.iterations += gain;
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

Prepared Stepper::prepare(const Progress& progress, const Team& team, const Decisions& decisions,
                          double last_step_s) {
  begin(progress, team);
  while (const auto pass = next_pass()) backward(program_.training_step(pass->batch));
  return finish(decisions, last_step_s);
}

Prepared Stepper::finish(const Decisions& decisions, double last_step_s) {
  ADAPTDL_CHECK(computed());
  const Running run = std::move(*running_);
  running_.reset();
  const Progress& progress = *run.before;
  const Team& team = run.team;
  const TimePoint begun = run.begun;
  StepReport report = run.report;
  hooks_.reached(StepHooks::Point::reduced, progress.step + 1, team.member);

  report.step_s = last_step_s;
  report.next_batch = decisions.next_batch;
  report.checkpoint = decisions.checkpoint && decisions.checkpoint(seconds_since(begun));
  report.nonfinite |= !gradients_.finite();
  report.norms = gradients_.norms();
  if (team.communicator) report.used = gradients_.used();
  if (progress.measure) {
    measure_cost_s_ = gradients_.measure_seconds();
  }
  report.next_measure =
      measures(spec_, progress, team.replicas, progress.step + 2, {measure_cost_s_, last_step_s});
  Prepared prepared;
  StepFacts& facts = prepared.facts;
  const StepSummary& summary = facts.summary = exchange(team.communicator, report);
  if (team.communicator) gradients_.drop_unused(summary.used);

  Progress& after = prepared.after = progress;
  const auto batch = static_cast<double>(progress.batch.total(team.replicas));
  facts.replicas = team.replicas;
  facts.whole = summary.samples == batch;
  facts.batch = progress.batch;
  facts.halved = run.halves;
  if (progress.measure && !summary.nonfinite) update_statistics(after, progress, facts, run.steps);
  ++after.tick;
  ++after.step;
  after.trained_s += summary.slowest_s;
  after.measure = summary.next_measure;

  const auto initial = static_cast<double>(spec_.batch.initial);
  const double scale = summary.samples / initial;
  const double gain = after.statistics.gain(scale);
  const double rate_scale = gns::rate_scale(batch / initial, scale);
  const double schedule = schedule_.factor(progress.iterations);
  prepared.momentum = schedule_.momentum(progress.iterations);
  for (int g = 0; g < optimizer_.group_count(); ++g) {
    const auto rule = spec_.rule.value_or(optimizer_.scaling_rule(g));
    prepared.lr_factors.push_back(
        schedule *
        gns::lr_factor(rule, {rate_scale, after.statistics.gain(rate_scale, g), progress.iterations,
                              spec_.legw_warmup_epochs, iterations_per_epoch_}));
  }
  after.loss_scale = progress.loss_scale.after(spec_.precision, !facts.skipped());
  if (facts.skipped()) {
    ++after.skipped;
    // A smaller loss scale may help.
    if (progress.loss_scale.factor == 1) ++after.skipped_in_a_row;
  } else {
    after.skipped_in_a_row = 0;
    after.epoch_loss_sum += summary.loss * summary.samples;
    after.epoch_samples += summary.samples;
  }
  // A skipped step makes no progress, but consumes its samples.
  advance(after, run.steps.back(), facts.skipped() ? 0.0 : gain);
  if (summary.next_batch.atomic > 0 && summary.next_batch != progress.batch) {
    after.batch = summary.next_batch;
    after.batch_since = after.step;
    after.fresh = 0;
  }

  facts.step = after.step;
  facts.iterations = after.iterations;
  facts.total_iterations = expected_iterations(after, spec_, iterations_per_epoch_ * spec_.epochs);
  facts.lr = optimizer_.base_lr(0) * prepared.lr_factors[0];
  facts.gain = gain;
  facts.efficiency = gain / scale;
  if (!after.statistics.empty() && after.statistics.sqr() > 0) {
    facts.noise_scale =
        after.statistics.var() / after.statistics.sqr() * static_cast<double>(spec_.batch.initial);
  }
  facts.step_s = seconds_since(begun);
  return prepared;
}

void Stepper::apply(const Prepared& prepared) {
  // The next statistics of a lone replica that does not measure halves compare this step's gradient
  // with the next one.
  const Progress& after = prepared.after;
  if (after.measure && prepared.facts.replicas == 1 && prepared.facts.batch.micro_steps == 1 &&
      !in_halves(spec_, after, 1, after.step + 1) && after.batch == prepared.facts.batch &&
      prepared.facts.whole && !prepared.facts.skipped()) {
    gradients_.remember(spec_.optimizer.clip_norm > 0 || spec_.optimizer.clip_value > 0);
  } else {
    gradients_.forget();
  }
  if (prepared.facts.skipped()) return saved_buffers_.restore();
  saved_buffers_.keep();
  optimizer_.step(prepared.lr_factors, prepared.momentum);
}

}  // namespace adaptdl
