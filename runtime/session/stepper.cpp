#include "runtime/session/stepper.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/batches.h"
#include "runtime/session/deterministic.h"
#include "runtime/session/measuring.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

data::Sampler make_sampler(const TrainingSpec& spec, const data::Dataset& dataset) {
  data::SamplerOptions options;
  options.seed = spec.seed;
  options.shuffle = spec.data.shuffle && !dataset.in_order();
  options.continuous = spec.data.continuous;
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

// The state of a generator depends only on (seed, step, turn, rank or shard), so that it need not
// be saved and is correct after any rescale.
void seed_generators(uint64_t seed, const Progress& progress, int rank) {
  uint64_t x =
      seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(progress.step) * 0xBF58476D1CE4E5B9u +
      static_cast<uint64_t>(progress.turn) * 0xD6E8FEB86659FD93u + static_cast<uint64_t>(rank);
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
                 StepHooks& hooks, const std::vector<size_t>& models)
    : program_(program),
      optimizer_(optimizer),
      spec_(spec),
      device_(device),
      hooks_(hooks),
      loader_(dataset, make_sampler(spec, dataset), loader_options(spec)),
      accounting_(program, optimizer, schedule, spec, dataset.size()),
      shards_(spec.shards()),
      saved_buffers_(program, /*always=*/shards_ > 0),
      shard_buffers_(program, saved_buffers_),
      turns_(!models.empty()) {
  const std::vector<NamedTensor> parameters = program.parameters();
  auto next = parameters.begin();
  for (const size_t count : turns_ ? models : std::vector{parameters.size()}) {
    const auto first = next;
    next += static_cast<std::ptrdiff_t>(count);
    GradientsOptions options;
    options.first = static_cast<size_t>(first - parameters.begin());
    options.rounded = spec.gradient_compression == TrainingSpec::Compression::bf16;
    gradients_.push_back(std::make_unique<Gradients>(std::vector(first, next), optimizer, options));
  }
}

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
  for (auto& gradients : gradients_) gradients->clear();
  saved_buffers_.restore();
}

void Stepper::read_ahead(const Progress& progress, const Team& team) {
  if (shards_ > 0) {
    const auto range = data::shards_of(shards_, team.replicas, team.rank);
    if (range.count == 0) return;
    return loader_.configure_shards(progress.position, shards_, range, progress.batch.fixed);
  }
  loader_.configure(progress.position, team.replicas, team.rank, progress.batch.atomic,
                    progress.batch.micro_steps);
}

// The micro-batches of the next step: as many as planned, or fewer at the end of a pass.
std::vector<data::Step> Stepper::plan_passes(const Progress& progress, const Team& team) const {
  std::vector<data::Step> steps;
  data::Position position = progress.position;
  if (shards_ > 0) {
    const auto range = data::shards_of(shards_, team.replicas, team.rank);
    for (int i = 0; i < std::max(range.count, 1); ++i) {
      steps.push_back(loader_.sampler().shard(
          position, shards_, range.count > 0 ? range.first + i : shards_, progress.batch.fixed));
    }
    return steps;
  }
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
  seed_generators(spec_.seed, {.step = progress.step}, team.rank);
  read_ahead(progress, team);
  if (shards_ > 0) check_stateless(program_);
  running_.emplace(Running{.begun = begun, .before = &progress, .team = team});
  Running& run = *running_;
  run.steps = plan_passes(progress, team);
  saved_buffers_.save();
  const int64_t whole = progress.batch.total(team.replicas);
  // On several replicas only if all have as many samples; a lone one may have a rest of a pass.
  run.halves = measures(progress) && run.steps.size() == 1 &&
               run.steps.front().samples >= kSmallestHalved &&
               (team.replicas == 1 || run.steps.front().consumed == whole) &&
               in_halves(spec_, progress, team.replicas, progress.step + 1);
  for (const auto& step : run.steps) run.samples += static_cast<double>(step.consumed);
  if (shards_ > 0) {
    run.samples = static_cast<double>(run.steps.front().consumed);
    run.report.shard_losses.resize(static_cast<size_t>(shards_));
    shard_buffers_.begin_step();
  }
  run.passes = static_cast<int>(run.steps.size()) * (run.halves ? 2 : 1);
  run.again = progress.turn > 0;
  if (shards_ > 0) {
    gradients_.front()->begin_shards(team.communicator, shards_,
                                     data::shards_of(shards_, team.replicas, team.rank),
                                     progress.loss_scale.factor);
    return;
  }
  if (!turns_) {
    gradients_.front()->begin(team.communicator, run.passes, progress.measure,
                              progress.loss_scale.factor);
    return;
  }
  for (auto& gradients : gradients_) gradients->clear();
  // A replica with nothing would not know which turns the others' loops take.
  if (run.steps.size() > 1 || run.steps.front().sharers < team.replicas) {
    fail(
        "several models take turns only on whole batches: give each replica a sample (batch.initial"
        " is {}, the data have {} samples), and set batch.atomic_max to no less than its share",
        spec_.batch.initial, loader_.sampler().samples());
  }
}

bool Stepper::computed() const {
  return running_ && running_->done == running_->passes;
}

Pass Stepper::load_pass() {
  Running& run = *running_;
  if (shards_ > 0 && run.steps[run.loaded].rank == shards_) {  // a replica without shards
    run.pass_begun = Monotonic::now();
    return {};
  }
  const auto batch = loader_.next();
  ADAPTDL_CHECK(batch && batch->step.from == run.steps[run.loaded].from);
  ++run.loaded;
  run.pass_begun = Monotonic::now();
  const int64_t samples = batch->step.samples;
  if (samples == 0) return {};
  const data::Step& step = batch->step;
  const data::Step* before = run.loaded > 1           ? &run.steps[run.loaded - 2]
                             : last_step_.has_value() ? &*last_step_
                                                      : nullptr;
  const bool goes_on = spec_.data.continuous && step.from.index > 0 && before != nullptr &&
                       before->next == step.from && before->consumed == step.consumed &&
                       before->rank == step.rank;
  Pass whole{to_tensors(*batch, device_), samples, goes_on};
  if (!run.halves) return whole;
  const int64_t first = (samples + 1) / 2;
  Pass front{{}, first, false}, back{{}, samples - first, false};
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
    run.turn_begun = run.pass_begun;
    run.pass_samples = pass.samples;
    run.weight =
        static_cast<double>(pass.samples) * (shards_ > 0 ? 1 : run.team.replicas) / run.samples;
    if (pass.samples > 0) {
      if (shards_ > 0) {
        seed_generators(spec_.seed, {.step = run.before->step}, run.steps[run.loaded - 1].rank);
        if (run.done > 0) shard_buffers_.begin_pass();
      }
      autocast_.emplace(device_, spec_.precision);
      return pass;
    }
    gradients_.front()->begin_micro_step(run.done, run.weight);
    end_pass();
  }
  return {};
}

// Gradients count from here on only: a backward pass of the program's own would be taken for that
// of the loss, and the sums of the replicas would differ.
void Stepper::backward(const at::Tensor& loss) {
  check_undisturbed();
  gradients_.front()->begin_micro_step(running_->done, running_->weight);
  run_backward(loss, {});
  end_pass();
}

void Stepper::check_undisturbed() const {
  if (std::ranges::none_of(gradients_, [](const auto& each) { return each->disturbed(); })) return;
  fail(
      "backward() was called on a parameter of the training; add the losses and give their sum to "
      "step(), and compute other gradients by torch::autograd::grad()");
}

// Gradients go to `inputs`, or where they are empty to all parameters.
void Stepper::run_backward(const at::Tensor& loss, const std::vector<at::Tensor>& inputs) {
  Running& run = *running_;
  autocast_.reset();
  check_loss(loss);
  const double scale = run.before->loss_scale.factor;
  const at::Tensor wide = scale == 1 ? loss : loss.to(at::kFloat);  // 16 bits would overflow
  const at::Tensor weighed = run.weight * scale == 1 ? wide : wide * (run.weight * scale);
  if (inputs.empty()) {
    weighed.backward();
  } else {
    weighed.backward({}, /*retain_graph=*/std::nullopt, /*create_graph=*/false, inputs);
  }
  run.loss = loss.detach();
  if (shards_ > 0) shard_buffers_.end_pass(run.steps[run.loaded - 1].rank);
}

// Waits for the device that computes the pass.
void Stepper::read_loss() {
  Running& run = *running_;
  if (!run.loss.defined()) return;  // a pass without samples
  const double value = run.loss.item<double>() * static_cast<double>(run.pass_samples);
  run.loss.reset();
  run.report.samples += static_cast<double>(run.pass_samples);
  run.report.loss_sum += value;
  run.report.nonfinite |= !std::isfinite(value);
  if (shards_ == 0) return;
  const int shard = run.steps[run.loaded - 1].rank;
  run.report.shard_losses[static_cast<size_t>(shard)] = value;
}

void Stepper::end_pass() {
  Running& run = *running_;
  Gradients& gradients = *gradients_.front();
  gradients.end_micro_step();
  const bool last = run.done + 1 == run.passes;
  // Alone, a GPU is waited for once, after all that the step asks of it. Others' gradients, and the
  // statistics, take time of their own, which is measured.
  const bool at_once = last && !run.team.communicator && !measures(*run.before);
  if (at_once) gradients.finish();
  read_loss();
  const StepHooks::Pass pass{run.pass_begun, run.team.replicas, run.steps.front().samples};
  hooks_.computed(pass);
  run.report.compute_s += seconds_since(run.pass_begun);
  ++run.done;
  if (!last) {
    run.report.accum_s += seconds_since(run.pass_begun) / (run.passes - 1);
    return;
  }
  const auto backward_done = Monotonic::now();
  if (!at_once) gradients.finish();
  if (shards_ > 0) {
    shard_buffers_.combine(run.team.communicator, shards_, run.steps.front().sharers);
  }
  hooks_.synchronised(pass);
  run.report.sync_s = seconds_since(backward_done);
  run.report.optim_s = seconds_since(run.pass_begun);
}

Prepared Stepper::prepare(const Progress& progress, const Team& team, const Decisions& decisions,
                          double last_step_s) {
  begin(progress, team);
  while (const auto pass = next_pass()) backward(program_.training_step(pass->batch));
  return finish(decisions, last_step_s);
}

void Stepper::report_gradients(StepReport& report, const Gradients& gradients) const {
  report.nonfinite |= !gradients.finite();
  report.norms = gradients.norms();
  if (running_->team.communicator) report.used = gradients.used();
}

void Stepper::report_decisions(StepReport& report, const Decisions& decisions,
                               double last_step_s) const {
  const Running& run = *running_;
  report.step_s = last_step_s;
  report.next_batch = decisions.next_batch;
  report.checkpoint = decisions.checkpoint && decisions.checkpoint(seconds_since(run.begun));
  report.next_measure = adaptdl::measures(spec_, *run.before, run.team.replicas,
                                          run.before->step + 2, {measure_cost_s_, last_step_s});
}

// Collective: what all replicas have reported, and the progress before it as yet.
Prepared Stepper::prepared_by(const Running& run, Prepared::Kind kind,
                              const StepReport& report) const {
  Prepared prepared;
  prepared.kind = kind;
  prepared.after = *run.before;
  ++prepared.after.tick;
  StepFacts& facts = prepared.facts;
  facts.summary = exchange(run.team.communicator, report);
  facts.replicas = run.team.replicas;
  facts.whole =
      facts.summary.samples == static_cast<double>(run.before->batch.total(facts.replicas));
  facts.batch = run.before->batch;
  facts.halved = run.halves;
  return prepared;
}

void Stepper::add_sums(const std::map<std::string, double>& sums) {
  for (const auto& [name, value] : sums) {
    running_->sums.push_back(name);
    running_->report.sums.push_back(value);
  }
}

Prepared Stepper::finish(const Decisions& decisions, double last_step_s) {
  ADAPTDL_CHECK(computed());
  Gradients& gradients = *gradients_.front();
  const Progress& progress = *running_->before;
  if (measures(progress)) measure_cost_s_ = gradients.measure_seconds();
  StepReport report = running_->report;
  report_gradients(report, gradients);
  report_decisions(report, decisions, last_step_s);
  const Running run = std::move(*running_);
  running_.reset();
  finishing_ = run.steps.back();
  hooks_.reached(StepHooks::Point::reduced, progress.step + 1, run.team.member);

  Prepared prepared = prepared_by(run, Prepared::Kind::step, report);
  const StepFacts& facts = prepared.facts;
  if (run.team.communicator) gradients.drop_unused(facts.summary.used);
  if (measures(progress) && !facts.skipped()) {
    accounting_.add_statistics(prepared, progress, run.steps, gradients.has_previous());
  }
  accounting_.set_rates(prepared, progress);
  prepared.after.loss_scale = progress.loss_scale.after(spec_.precision, !facts.skipped());
  accounting_.end_step(prepared, progress, run.steps, run.sums);
  prepared.facts.step_s = seconds_since(run.begun);
  return prepared;
}

Prepared Stepper::turn(size_t model, const at::Tensor& loss) {
  Running& run = *running_;
  const Progress& progress = *run.before;
  Gradients& gradients = *gradients_.at(model);
  check_undisturbed();
  gradients.begin(run.team.communicator, 1, progress.measure && run.team.replicas > 1,
                  progress.loss_scale.factor);
  gradients.begin_micro_step(0, run.weight);
  run.report.loss_sum = run.report.samples = 0;
  run.report.nonfinite = false;
  std::vector<at::Tensor> inputs;
  for (const NamedTensor& parameter : gradients.parameters()) inputs.push_back(parameter.tensor);
  run_backward(loss, inputs);
  gradients.end_micro_step();
  read_loss();
  const auto backward_done = Monotonic::now();
  run.report.compute_s += seconds_between(run.turn_begun, backward_done);
  gradients.finish();
  run.report.sync_s += seconds_since(backward_done);
  if (progress.measure) measure_cost_s_ = gradients.measure_seconds();

  StepReport report = run.report;
  report_gradients(report, gradients);
  Prepared prepared = prepared_by(run, Prepared::Kind::turn, report);
  const StepSummary& summary = prepared.facts.summary;
  if (run.team.communicator) gradients.drop_unused(summary.used);
  run.norms.resize(summary.norms.size());
  for (size_t g = 0; g < run.norms.size(); ++g) {
    run.norms[g].local += summary.norms[g].local;
    run.norms[g].total += summary.norms[g].total;
  }
  accounting_.set_rates(prepared, progress);
  ++prepared.after.turn;
  // Checkpoints and newcomers get the sum as JSON, which has no other numbers.
  if (std::isfinite(summary.loss)) prepared.after.turn_loss += summary.loss;
  prepared.after.turn_skipped |= summary.nonfinite;
  prepared.after.loss_scale = progress.loss_scale.after(spec_.precision, !summary.nonfinite);
  return prepared;
}

// What the loop's body has done so far is done; what follows is undone with the next turn.
void Stepper::next_turn() {
  const Running& run = *running_;
  saved_buffers_.save();
  seed_generators(spec_.seed, *run.before, run.team.rank);
  autocast_.emplace(device_, spec_.precision);
  running_->turn_begun = Monotonic::now();
}

void Stepper::break_off() {
  broken_off_ = program_.state();
}

Prepared Stepper::finish_turns(const Decisions& decisions, double last_step_s) {
  StepReport report = running_->report;
  report.loss_sum = 0;
  report.samples = static_cast<double>(running_->pass_samples);
  report.nonfinite = false;
  report.optim_s = seconds_since(running_->pass_begun);
  report_decisions(report, decisions, last_step_s);
  const Running run = std::move(*running_);
  running_.reset();
  finishing_ = run.steps.back();
  autocast_.reset();
  const Progress& progress = *run.before;
  Prepared prepared = prepared_by(run, Prepared::Kind::turns_over, report);
  StepFacts& facts = prepared.facts;
  // Of a skipped turn the loss may be missing in the sum.
  facts.summary.loss =
      progress.turn_skipped ? std::numeric_limits<double>::quiet_NaN() : progress.turn_loss;
  facts.summary.nonfinite = progress.turn_skipped;
  facts.summary.norms = run.norms;
  facts.whole &= !run.again;
  // Statistics compare replicas' gradients: a lone one has none to compare.
  if (progress.measure && run.team.replicas > 1 && !run.again && !facts.skipped()) {
    accounting_.add_statistics(prepared, progress, run.steps, /*compared=*/false);
  }
  accounting_.set_rates(prepared, progress);
  accounting_.end_step(prepared, progress, run.steps, run.sums);
  prepared.facts.step_s = seconds_since(run.begun);
  prepared.after.turn = 0;
  prepared.after.turn_loss = 0;
  prepared.after.turn_skipped = false;
  return prepared;
}

void Stepper::apply(const Prepared& prepared) {
  if (prepared.kind != Prepared::Kind::turn) last_step_ = finishing_;
  if (prepared.kind == Prepared::Kind::turns_over) return saved_buffers_.keep();
  // The next statistics of a lone replica that does not measure halves compare this step's gradient
  // with the next one.
  const Progress& after = prepared.after;
  if (!turns_ && after.measure && prepared.facts.replicas == 1 &&
      prepared.facts.batch.micro_steps == 1 && !in_halves(spec_, after, 1, after.step + 1) &&
      after.batch == prepared.facts.batch && prepared.facts.whole && !prepared.facts.skipped()) {
    gradients_.front()->remember(spec_.optimizer.clip_norm > 0 || spec_.optimizer.clip_value > 0);
  } else {
    for (auto& gradients : gradients_) gradients->forget();
  }
  if (prepared.facts.skipped()) {
    saved_buffers_.restore();
  } else {
    if (broken_off_ && !broken_off_->empty()) program_.load_state(*broken_off_);
    saved_buffers_.keep();
    optimizer_.step(prepared.lr_factors, prepared.momentum);
  }
  if (!turns_) return;
  for (auto& gradients : gradients_) gradients->clear();  // the others' turns come next
}

}  // namespace adaptdl
