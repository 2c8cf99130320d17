#include "runtime/open/open_loop.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/guarded_read.h"
#include "runtime/parallel/buffers.h"
#include "runtime/session/step_failure.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// Between an epoch's last step and its validation the position is already that of the next epoch.
int64_t epoch_of(const Progress& progress) {
  const data::Position& next = progress.position;
  const bool validates_last =
      progress.validate && next.epoch > 0 && next.pass == 0 && next.index == 0;
  return static_cast<int64_t>(next.epoch) - (validates_last ? 1 : 0);
}

}  // namespace

OpenLoop::Sums metrics_of(const OpenLoop::Sums& sums) {
  const auto count = sums.find("count");
  if (count == sums.end()) return sums;
  if (count->second <= 0) fail("the validation loop counted no samples in \"count\"");
  return means(sums);
}

OpenLoop::OpenLoop(Program& program, const TrainingSpec& spec, const TrainOptions& options,
                   Session& session, Sums& sums)
    : TrainingReplica(program, spec, options, session), sums_(sums) {
  if (spec.validate_every_epochs != 1) {
    fail("validate_every_epochs: this program's own loop says when it validates; leave it out");
  }
}

StepInfo OpenLoop::last_step() const {
  StepInfo info;
  info.step = progress_.step;
  info.progress = progress_.iterations;
  const auto& last = TrainingReplica::last_step();
  if (!last) return info;
  info.loss = last->summary.loss;
  info.learning_rate = last->lr;
  info.gain = last->gain;
  info.noise_scale = last->noise_scale;
  info.batch = last->batch.total(last->replicas);
  info.atomic_batch = last->batch.atomic;
  info.accumulation = last->batch.micro_steps - 1;
  return info;
}

double OpenLoop::sum(const std::string& name) const {
  const auto found = progress_.sums.find(name);
  return found == progress_.sums.end() ? 0 : found->second;
}

template <typename Part>
bool OpenLoop::in_generation(bool together, const Part& part) {
  try {
    const Session::Together all(session_, together);
    part();
    return true;
  } catch (const comm::Aborted& broken) {
    lost(broken);
    member_ = awaits_loss_ = validating_ = false;
    return false;
  } catch (const data::ReadFailed& error) {  // of this replica's disk
    throw failed(error);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw failed(error);
  }
}

void OpenLoop::join() {
  autocast_.reset();
  if (member_) in_generation(/*together=*/false, [this] { follow(follow_up()); });
  while (!member_) {
    if (!session_.await_next()) follow(Outcome::left);
    // Not together: the first rank may load a checkpoint for long.
    member_ = in_generation(/*together=*/false, [this] { synchronise(); });
  }
  undone_ = false;
}

// Everything that must be on disk is there: no destructor is needed, and the user's objects, which
// other threads may use, stay as they are.
void OpenLoop::follow(Outcome outcome) {
  if (outcome == Outcome::go_on) return;
  const int code = leave(outcome);
  std::fflush(nullptr);
  _exit(code);
}

std::optional<int64_t> OpenLoop::next_epoch() {
  if (over_) return {};
  if (!announced_) {
    announced_ = true;
    announce();
    join();
  } else {
    end_epoch();
    if (!moved_on_ && !progress_.finished && epoch_of(progress_) == epoch_) {
      fail("the loop over epochs() has asked batches() for none of epoch {}'s batches", epoch_);
    }
  }
  moved_on_ = false;
  for (;; join()) {
    if (!in_generation(/*together=*/true, [this] { agree_on_end(); })) continue;
    // By its limits too, as a checkpoint may bring a run back.
    if (!progress_.finished || progress_.validate) break;
    over_ = in_generation(/*together=*/false, [this] { conclude(/*finished=*/true); });
    if (over_) {
      leave(Outcome::finished);
      return {};
    }
    // The next generation agrees anew: others may not have heard of this end.
    if (progress_.ended_by == EndedBy::program) {
      progress_.finished = false;
      progress_.ended_by = EndedBy::nothing;
    }
  }
  epoch_ = epoch_of(progress_);
  return epoch_;
}

// Collective where an epoch begins, as the first thing in a generation, for a replica that comes
// there does not know what the others' bodies have called.
void OpenLoop::agree_on_end() {
  const data::Position& next = progress_.position;
  const std::pair here{session_.generation(), progress_.tick};
  if (next.epoch == 0 || next.pass > 0 || next.index > 0 || progress_.turn > 0 ||
      progress_.validate || progress_.finished || asked_in_ == here) {
    return;
  }
  bool ends = state_.last_epoch >= 0 && state_.last_epoch < epoch_of(progress_);
  if (auto* communicator = session_.communicator()) {
    for (const uint8_t each : comm::all_gather_values<uint8_t>(*communicator, ends)) {
      ends |= each != 0;
    }
  }
  asked_in_ = here;
  if (!ends) return;
  // Who called it may die before this is over.
  if (state_.last_epoch < 0) state_.last_epoch = epoch_of(progress_) - 1;
  progress_.finished = true;
  progress_.ended_by = EndedBy::program;
}

void OpenLoop::finish() {
  if (!announced_) fail("finish() must stand in a loop over epochs()");
  if (state_.last_epoch < 0) state_.last_epoch = epoch_;
}

void OpenLoop::check_validated() const {
  if (!validating_) return;
  fail("the loop over validation_batches() was left early; its sums are not those of all replicas");
}

// A body without a validation leaves it out.
void OpenLoop::end_epoch() {
  end_batch();
  if (awaits_loss_) fail("step() was not called for the last batch; each needs it once");
  check_validated();
  for (join(); progress_.validate; join()) {
    moved_on_ = true;
    in_generation(/*together=*/true, [this] {
      collectives_.leave(session_.communicator(), progress_.tick);
      average_buffers(session_.communicator(), program_.buffers());
      settle(validated(nullptr));
    });
  }
}

std::optional<Pass> OpenLoop::next_batch() {
  if (!announced_ || over_) fail("batches() must stand in a loop over epochs()");
  check_validated();
  end_batch();
  if (awaits_loss_) fail("step() was not called for the last batch; each needs it once");
  for (;;) {
    join();
    if (progress_.finished || progress_.validate || epoch_of(progress_) != epoch_) return {};
    std::optional<Pass> pass;
    in_generation(/*together=*/true, [&] {
      if (!stepper_.begun()) {
        agree_on_end();
        if (progress_.finished) fail("finish(): not all replicas call it in the same epoch");
        session_.report_passes(samples_at_once());
        stepper_.begin(progress_, team());
        for (auto& [name, value] : sums_) value = 0;
      }
      pass = stepper_.next_pass();
      if (!pass) settle_step();  // this replica has no samples in what is left of the step
    });
    moved_on_ = true;
    if (!pass) continue;
    awaits_loss_ = true;
    if (!options_.models.empty()) turn_ = 0;
    return pass;
  }
}

void OpenLoop::step(const at::Tensor& loss) {
  if (!options_.models.empty()) {
    fail("step() needs the name of the model whose turn it is, as given to add_model()");
  }
  if (!awaits_loss_) fail("step() needs a batch of batches(), and takes one loss for each");
  awaits_loss_ = false;
  const bool whole = in_generation(/*together=*/true, [&] {
    const int64_t before = progress_.tick;
    stepper_.backward(loss);
    if (!stepper_.computed()) return;
    settle_step();
    // The others had another state: the body runs again, and what it still does now is undone.
    if (progress_.tick > before) return;
    stepper_.save();
    undone_ = true;
  });
  undone_ |= !whole;
}

// What is left of a body that is undone would come under the number of the step before.
void OpenLoop::log(const std::string& name, double value) {
  if (!undone_) reporter_.scalar(progress_.step, name, value);
}

void OpenLoop::settle_step() {
  stepper_.add_sums(sums_);
  settle(stepper_.finish(decisions(), last_step_s_));
}

// If the generation breaks, the rest of the body has no effect. It runs again, and passes over the
// turns that were finished.
void OpenLoop::turn(size_t model, const at::Tensor& loss) {
  if (turn_ < 0) fail("step() needs a batch of batches()");
  awaits_loss_ = false;
  ++turn_;
  if (!member_ || !stepper_.begun()) return;
  const bool whole = in_generation(/*together=*/true, [&] {
    if (turn_ > progress_.turn) settle(stepper_.turn(model, loss));
    // Where the others had another state, the body runs again: what it still does is undone.
    undone_ = !stepper_.begun();
    undone_ ? stepper_.save() : stepper_.next_turn();
  });
  if (whole) return;
  undone_ = true;
  stepper_.break_off();
}

// With several models the body may take any turns, so a step is over when it wants another batch.
void OpenLoop::end_batch() {
  const int taken = std::exchange(turn_, -1);
  if (taken <= 0 || !member_ || !stepper_.begun()) return;
  if (taken < progress_.turn) {
    fail("the loop's body took {} turns with a batch for which it had taken {}", taken,
         progress_.turn);
  }
  in_generation(/*together=*/true, [&] {
    stepper_.add_sums(sums_);
    settle(stepper_.finish_turns(decisions(), last_step_s_));
  });
}

std::string OpenLoop::combined(const std::string& mine, const standalone::Fold& fold) {
  if (announced_ && !over_) {
    end_batch();
    join();
  }
  if (!announced_ || over_ || awaits_loss_ || validating_ || !progress_.validate ||
      epoch_of(progress_) != epoch_) {
    fail(
        "collective() comes in the loop over epochs(), after batches() has given all of the "
        "epoch's batches and before validation_batches()");
  }
  for (;; join()) {
    std::optional<std::string> result;
    in_generation(/*together=*/true, [&] {
      result = collectives_.next(session_.communicator(), progress_.tick, mine, fold);
    });
    if (result) return *std::move(result);
  }
}

void OpenLoop::begin_validation() {
  if (!validator_)
    fail("validation_batches(): there is no validation data, in the settings or by use_data()");
  if (!announced_ || over_) fail("validation_batches() must stand in a loop over epochs()");
  check_validated();
  end_batch();
  join();
  if (!progress_.validate) {
    fail(
        "validation_batches() comes once in each epoch, after batches() has given all of the "
        "epoch's batches");
  }
}

std::optional<Pass> OpenLoop::next_validation_batch(Sums& sums) {
  // What is left of the epoch's body still belongs to it: the next epoch's beginning joins others.
  for (; progress_.validate; join()) {
    std::optional<std::vector<at::Tensor>> batch;
    autocast_.reset();
    in_generation(/*together=*/true, [&] {
      if (!validating_) {
        collectives_.leave(session_.communicator(), progress_.tick);
        sums.clear();
        session_.report_passes(samples_at_once());
        average_buffers(session_.communicator(), program_.buffers());
        validator_->begin(session_.communicator(), session_.replicas(), session_.rank(),
                          samples_at_once());
        validating_ = true;
      }
      batch = validator_->next();
      if (batch) return;
      validating_ = false;
      moved_on_ = true;
      sums = validator_->sum(sums);
      const Sums metrics = metrics_of(sums);
      settle(validated(&metrics));
    });
    if (batch) {
      autocast_.emplace(options_.device, spec_.precision);
      const int64_t samples = batch->front().size(0);
      return Pass{std::move(*batch), samples, false};
    }
    if (!progress_.validate) break;
  }
  return {};
}

}  // namespace adaptdl
