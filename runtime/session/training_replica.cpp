#include "runtime/session/training_replica.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/system.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/watched_file.h"
#include "runtime/parallel/buffers.h"
#include "runtime/parallel/tensor_math.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/session/batches.h"
#include "runtime/session/deterministic.h"
#include "runtime/session/device.h"
#include "runtime/session/load_weights.h"
#include "runtime/session/model_tensors.h"
#include "runtime/session/newest_checkpoint.h"
#include "runtime/session/seen_data.h"
#include "runtime/session/step_failure.h"
#include "runtime/session/stop_rules.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

using nlohmann::json;

uint64_t total_bytes(const std::vector<NamedTensor>& tensors) {
  uint64_t bytes = 0;
  for (const auto& named : tensors) bytes += named.tensor.nbytes();
  return bytes;
}

// Events are rank 0's; the launcher tells the user of copies.
void tell_checkpoint(Session& session, const json& event, Checkpointer::Kind kind) {
  if (kind == Checkpointer::Kind::first) return session.emit(event);
  const std::string error = event.value("error", "");
  if (!error.empty()) log_warning("no copy of the checkpoint is written: {}", error);
  session.send(
      {{"type", "copied"}, {"step", event["step"]}, {"host", host_name()}, {"error", error}});
}

// Of a pass over data that had another size: the sample at the same share of it.
int64_t at_same_share(int64_t index, int64_t samples_before, int64_t samples) {
  if (samples_before <= 0 || samples_before == samples) return index;
  const double share = static_cast<double>(index) / static_cast<double>(samples_before);
  return static_cast<int64_t>(share * static_cast<double>(samples));
}

}  // namespace

TrainingReplica::TrainingReplica(Program& program, const TrainingSpec& spec,
                                 const TrainOptions& options, Session& session)
    : program_(program),
      spec_(spec),
      options_(options),
      session_(session),
      data_(*options.data),
      optimizer_(spec.optimizer, program.parameters(),
                 [&program](const OptimizerGroup& group) { return program.update_rule(group); }),
      schedule_(spec.schedule, iterations_per_epoch(spec, data_.train.size())),
      stepper_(program, optimizer_, schedule_, spec, data_.train, options.device, *options.hooks,
               options.models),
      reporter_(session, stepper_.accounting().iterations_per_epoch(), spec.batch),
      checkpointer_(
          options.checkpoint_dir, spec.checkpoints_kept, spec.checkpoint_interval_s,
          [&session](const json& event, Checkpointer::Kind kind) {
            tell_checkpoint(session, event, kind);
          },
          options.device),
      batch_policy_(spec, data_.train.size()),
      hint_sender_(session),
      pace_sender_(session),
      link_sender_(session),
      models_(program, spec, options),
      state_(program, spec, optimizer_, schedule_, batch_policy_, checkpointer_),
      progress_(state_.progress),
      state_digest_([this] { return state_.trained_tensors(); }) {
  if (spec.deterministic) check_deterministic(data_);
  if (data_.validation) {
    if (!program.can_validate()) {
      fail("the settings name validation data, but the program has no validation_step");
    }
    validator_.emplace(program, *data_.validation, options.device, spec.precision);
  }
}

void TrainingReplica::announce() {
  const std::set<std::string> any_numbers = not_finite(state_.tensors());
  checkpointer_.allow_any_numbers(any_numbers);
  models_.allow_any_numbers(any_numbers);
  options_.hooks->program(program_);
  if (!session_.alone()) optimizer_.reserve_state();
  const std::string gpu = gpu_id(options_.device);
  session_.set_device(torch_device(options_.device), gpu);
  session_.announce({{"libtorch", TORCH_VERSION},
                     {"device", c10::str(options_.device)},
                     {"parameters", program_.parameters().size()},
                     {"state_bytes", total_bytes(state_.tensors())}});
  if (session_.has_launcher() && !gpu.empty()) {
    gpu_sender_.emplace(gpu, [this](const json& message) { session_.send(message); });
  }
}

void TrainingReplica::lost(const comm::Aborted& broken) {
  log_warning("generation {} ended after step {}: {}", session_.generation(), progress_.step,
              broken.what());
  session_.report_lost(broken.what());
  if (has_state_) checkpointer_.failed();
}

int TrainingReplica::leave(Outcome outcome) {
  if (outcome == Outcome::left) {
    checkpointer_.wait();
    session_.send({{"type", "bye"}, {"result", "left"}});
    session_.farewell();
    return 0;
  }
  const bool finished = outcome == Outcome::finished;
  session_.send({{"type", "bye"},
                 {"result", finished ? "finished" : "stopped"},
                 {"checkpoint", checkpointed_}});
  session_.farewell();
  return finished ? 0 : static_cast<int>(ExitCode::terminated);
}

Team TrainingReplica::team() const {
  return {session_.communicator(), session_.replicas(), session_.rank(), session_.nodes(),
          session_.member()};
}

const std::string& TrainingReplica::accelerator() const {
  return session_.accelerators().at(static_cast<size_t>(session_.rank()));
}

void TrainingReplica::reached(StepHooks::Point point, int64_t step) {
  options_.hooks->reached(point, step, session_.member());
}

void TrainingReplica::settle(Prepared prepared) {
  pending_ = std::move(prepared);
  Verdict verdict;
  {
    const Session::Together together(session_);
    reached(StepHooks::Point::prepared, pending_->after.step);
    Vote vote{.prepared = pending_->after.tick,
              .offer = session_.offer(),
              .stop = static_cast<int64_t>(session_.stop_requested()),
              .digest = digest(pending_->after),
              .member = session_.member()};
    if (session_.replicas() > 1) vote.state = state_digest_.of(progress_.step);
    // Where members always differ, as on unlike processors, their differences stay small and the
    // transfers rare.
    vote.compare_state =
        !diverged_step_ || progress_.step >= *diverged_step_ + StateDigest::kShares;
    vote.repeated = repeated_tick_ == vote.prepared;
    verdict = commit(session_.communicator(), vote);
  }
  if (!verdict.diverged.empty()) {
    bring_back(verdict.diverged);
    return;
  }
  reached(StepHooks::Point::committed, pending_->after.step);
  checkpoint_due_ = pending_->facts.summary.checkpoint;
  finish_tick();
  verdict_ = verdict;
}

TrainingReplica::Outcome TrainingReplica::follow_up() {
  if (!verdict_) return Outcome::go_on;
  const Verdict verdict = *std::exchange(verdict_, std::nullopt);
  const bool stops = verdict.stop != static_cast<int64_t>(StopMode::none);
  if (checkpoint_due_ && !stops) checkpoint();
  if (stops) {
    session_.answer(false);
    conclude(/*finished=*/false);
    return Outcome::stopped;
  }
  const uint64_t before = session_.generation();
  if (!session_.answer(verdict.switching)) return Outcome::left;
  if (session_.generation() != before) synchronise();
  return Outcome::go_on;
}

int64_t TrainingReplica::samples_at_once() const {
  const int64_t atomic = progress_.batch.atomic;
  return progress_.validate ? batch_policy_.to_validate(atomic, progress_.atomic_limit) : atomic;
}

StepFailure TrainingReplica::failed(const std::exception& error) const {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const data::Position& from = progress_.position;
  const int64_t step = progress_.step + 1;
  return {fmt::format("step {}, samples {} to {} of epoch {}: {}", step, from.index,
                      from.index + progress_.batch.total(session_.replicas()) - 1, from.epoch,
                      reason_of(error)),
          step, ours ? ours->exit_code() : ExitCode::error};
}

Decisions TrainingReplica::decisions() {
  Decisions decisions;
  if (session_.rank() == 0) {
    decisions.next_batch = batch_policy_.next(progress_, team().nodes, team().replicas);
    decisions.checkpoint = [this](double step_s) { return checkpointer_.due(step_s); };
  }
  return decisions;
}

Prepared TrainingReplica::validated(const std::map<std::string, double>* metrics) const {
  Prepared prepared;
  prepared.kind = Prepared::Kind::validation;
  prepared.left_out = metrics == nullptr;
  prepared.after = progress_;
  ++prepared.after.tick;
  prepared.after.validate = false;
  if (metrics) {
    prepared.after.validation = *metrics;
    judge_validation(prepared.after, spec_);
  }
  return prepared;
}

// Call once the pending step or validation is finished: all members have prepared it.
void TrainingReplica::finish_tick() {
  const Prepared done = std::move(*pending_);
  const Progress before = progress_;
  const bool validation = done.kind == Prepared::Kind::validation;
  if (validation) {
    if (!done.left_out) schedule_.on_validation(done.after.validation, done.after.iterations);
  } else {
    checkpointer_.release();
    stepper_.apply(done);
  }
  progress_ = done.after;
  pending_.reset();
  if (done.kind == Prepared::Kind::turn) return;
  const double epochs = progress_.iterations / stepper_.accounting().iterations_per_epoch();
  if (validation) {
    if (done.left_out) return;
    const bool best = models_.is_best(progress_);
    const std::string problem = best ? save_best() : "";
    reporter_.validation(progress_.step, epochs, progress_.validation, best, problem);
    return;
  }
  batch_policy_.observe(done.facts, team().nodes);
  reached(StepHooks::Point::applied, progress_.step);
  last_ = done.facts;
  reporter_.step(done.facts);
  reached(StepHooks::Point::announced, progress_.step);
  reporter_.step_ended(progress_.step, done.facts.summary.slowest_s);
  hint_sender_.step_ended(progress_, *last_, batch_policy_);
  pace_sender_.step_ended(*last_);
  link_sender_.step_ended();
  const auto now = Monotonic::now();
  last_step_s_ = last_step_end_ == TimePoint{} ? 0 : seconds_between(last_step_end_, now);
  last_step_end_ = now;
  checkpointer_.trained(last_step_s_);

  if (done.facts.skipped()) {
    reporter_.skipped(progress_.step, progress_.skipped, progress_.skipped_in_a_row);
    if (progress_.skipped_in_a_row >= spec_.max_nonfinite) {
      fail(
          "the loss or its gradient was not finite in {} steps in a row, the last one step {}; "
          "lower the learning rate, clip gradients or check the data",
          progress_.skipped_in_a_row, progress_.step);
    }
  }
  if (progress_.position.epoch != before.position.epoch) {
    reporter_.epoch(static_cast<int64_t>(progress_.position.epoch), progress_.step,
                    progress_.epoch_loss_sum / std::max(progress_.epoch_samples, 1.0));
    progress_.epoch_loss_sum = progress_.epoch_samples = 0;
  }
  if (progress_.batch != before.batch) {
    tell_batch();
  }
}

void TrainingReplica::tell_batch() {
  const int replicas = session_.replicas();
  double lr = last_ ? last_->lr : optimizer_.base_lr(0);
  try {
    lr = stepper_.accounting().next_lr(progress_, replicas);
  } catch (const std::exception&) {  // the program's rule may be for steps only: none may follow
  }
  reporter_.batch(progress_.batch, replicas, lr, batch_policy_.predicted_goodput(),
                  batch_policy_.cause());
}

// The next forward pass runs during the copy. It changes no parameters, but it changes buffers. In
// the checkpoint these are the replicas' mean, as in validation and in the trained model; training
// goes on with each replica's own.
void TrainingReplica::checkpoint() {
  std::vector<NamedTensor> buffers = program_.buffers();
  for (auto& named : buffers) named.tensor = named.tensor.detach().clone();
  {
    const Session::Together together(session_);
    average(buffers);
  }
  const bool copies = copying_rank(session_.folders()) == session_.rank();
  if (session_.rank() != 0 && !copies) return;
  checkpointer_.start(header(/*ended=*/false, /*finished=*/false), state_.tensors(buffers),
                      copies ? Checkpointer::Kind::copy : Checkpointer::Kind::first);
}

// Those of a deterministic run are the same on all replicas between steps (ShardBuffers).
void TrainingReplica::average(const std::vector<NamedTensor>& buffers) {
  if (!spec_.deterministic) average_buffers(session_.communicator(), buffers);
}

StepMark TrainingReplica::mark() const {
  return {has_state_,
          progress_.tick,
          progress_.tick + (pending_ ? 1 : 0),
          suspect_,
          batch_policy_.profiles().limit_of(accelerator()),
          seen_data(data_)};
}

// Before a member gets the state. One that sees other data ends here, and the others go on without
// it, unless nobody has trained yet: then the launcher ends the run.
void TrainingReplica::check_data(const SyncPlan& plan) const {
  if (!plan.data_differ) return;
  const std::string different = describe_difference(data_, plan.data, "the others");
  if (!different.empty()) {
    fail(
        "replica {} on {} {}; data must be the same on all hosts, and stay so until the run has "
        "ended",
        session_.member(), host_name(), different);
  }
  session_.communicator()->barrier();  // which breaks once that member has ended
}

void TrainingReplica::synchronise() {
  verdict_.reset();
  const bool had_state = has_state_;
  comm::Communicator* communicator = session_.communicator();
  KindProfiles& profiles = batch_policy_.profiles();
  profiles.limit(accelerator(), stricter(memory_limit_, session_.atomic_limit()));
  SyncPlan plan;
  {
    const Session::Together together(session_);
    plan = agree(communicator, mark());
  }
  check_data(plan);
  // If no member has state, one creates it first, alone, which may take long.
  const bool together_on = plan.root >= 0;
  reached(StepHooks::Point::syncing, progress_.step);
  // What a member prepared before was measured on the accelerators of then.
  const bool survives = together_on && !plan.receive;
  if (survives && pending_ && plan.finished > progress_.tick) finish_tick();
  moved_ |= profiles.train_on(session_.accelerators());
  if (plan.root < 0) {
    plan.root = begin_state();
    plan.receive = session_.rank() != plan.root;
    plan.transfer = session_.replicas() > 1;
  }
  reporter_.repeat();
  pending_.reset();
  stepper_.discard();
  const Transferred transferred = share_state(plan, together_on);
  if (const json resumed = std::exchange(resumed_, nullptr); !resumed.is_null()) {
    reporter_.resume(resumed.at("step"), resumed.at("path"), resumed.at("problems"));
  }
  if (!had_state) checkpointer_.begun();
  choose_copies();
  session_.report_switched(progress_.step);  // before events of the new generation
  // The previous rank 0 may have died while it saved the best model, which all still have.
  if (models_.is_best(progress_)) save_best();
  for (size_t rank = 0; rank < plan.atomic_limits.size(); ++rank) {
    profiles.limit(session_.accelerators().at(rank), plan.atomic_limits[rank]);
  }
  progress_.atomic_limit = profiles.limit();
  const bool chosen = choose_batch();
  batch_policy_.begin_generation();
  if (session_.threads() > 0 && !spec_.deterministic) at::set_num_threads(session_.threads());
  stepper_.read_ahead(progress_, team());
  reporter_.generation(transferred.seconds, transferred.bytes, had_state);
  if (!had_state) last_step_end_ = {};
  if (had_state && chosen && session_.replicas() == 1) {  // nobody else has the state any more
    checkpointer_.hurry();
    if (checkpointer_.due(0)) checkpoint();
  }
}

TrainingReplica::Transferred TrainingReplica::share_state(const SyncPlan& plan, bool together) {
  const Session::Together all(session_, together);
  comm::Communicator* communicator = session_.communicator();
  Transferred result;
  state_digest_.forget();
  if (plan.transfer && communicator) {
    if (plan.receive) has_state_ = false;
    checkpointer_.release();
    json state = state_.summary();
    state["resumed"] = resumed_;
    const auto sending = Monotonic::now();
    result.bytes = transfer(*communicator, plan, state, [&](const json& from_root) {
      if (plan.receive) state_.restore(from_root);
      return state_.tensors();
    });
    result.seconds = seconds_since(sending);
    resumed_ = state.value("resumed", json());
  }
  has_state_ = true;
  suspect_ = false;
  average(program_.buffers());
  return result;
}

// All members have the same verdict, so all do this in the same generation. If it breaks here, the
// next one's synchronise() does the rest, because the mark says who is suspect.
void TrainingReplica::bring_back(const std::vector<uint64_t>& diverged) {
  suspect_ = std::find(diverged.begin(), diverged.end(), session_.member()) != diverged.end();
  const std::vector<std::string> tensors = state_digest_.names(progress_.step);
  log_warning(
      "before step {}, replica {} no longer had the state of the others (found near {}); {}",
      pending_->after.step, fmt::join(diverged, ", "), tensors.front(),
      suspect_ ? "taking theirs" : "it takes ours");
  reporter_.diverged(pending_->after.step, diverged, tensors);
  session_.answer(false);
  diverged_step_ = progress_.step;
  repeated_tick_ = pending_->after.tick;
  pending_.reset();
  stepper_.discard();
  SyncPlan plan;
  {
    const Session::Together together(session_);
    plan = agree(session_.communicator(), mark());
  }
  share_state(plan, /*together=*/true);
  stepper_.read_ahead(progress_, team());
}

bool TrainingReplica::choose_batch() {
  // Rank 0 chooses for all: other machines may compute different results, and a generation that
  // broke here before may have left only some members with its choice.
  struct {
    BatchPlan batch;
    int64_t since = 0, fresh = 0, atomic_limit = 0;
    bool anew = false;
  } chosen{progress_.batch, progress_.batch_since, progress_.fresh, progress_.atomic_limit,
           moved_ || progress_.batch_replicas != session_.replicas() ||
               (progress_.atomic_limit > 0 && progress_.batch.atomic > progress_.atomic_limit)};
  if (chosen.anew && session_.rank() == 0) {
    chosen.batch = batch_policy_.for_replicas(progress_, team().nodes, team().replicas);
    chosen.since = progress_.step;
    chosen.fresh = 0;
    const std::string shortfall = batch_policy_.shortfall(chosen.batch, team().replicas);
    if (!shortfall.empty()) log_warning("{}", shortfall);
  }
  if (auto* communicator = session_.communicator()) {
    communicator->broadcast(&chosen, sizeof chosen, 0);
  }
  progress_.batch = chosen.batch;
  progress_.batch_since = chosen.since;
  progress_.fresh = chosen.fresh;
  progress_.atomic_limit = chosen.atomic_limit;
  progress_.batch_replicas = session_.replicas();
  moved_ = false;
  if (chosen.anew) tell_batch();
  return chosen.anew;
}

int TrainingReplica::begin_state() {
  const CheckpointSearch search{options_.name, options_.fresh_at, session_.folders(),
                                session_.rank()};
  const NewestCheckpoint newest =
      find_newest_checkpoint(session_.communicator(), search, checkpointer_.store());
  if (newest.root != session_.rank()) return newest.root;
  resumed_ = nullptr;
  if (newest.loaded) {
    resume(*newest.loaded, newest.problems);
  } else if (!newest.problems.empty()) {
    fail("no usable checkpoint in {}: {}; to train from the beginning, use --fresh",
         options_.checkpoint_dir, newest.problems.front());
  } else {
    state_.fresh_at = options_.fresh_at;
    if (spec_.from) {
      const LoadedWeights loaded = load_weights(program_, *spec_.from, options_.data_dir);
      state_.loaded_frozen = loaded.frozen;
      reporter_.warm_start(loaded.path, loaded.tensors, loaded.kept, loaded.skipped);
    }
    if (!options_.checkpoint_dir.empty()) state_.frozen_digest = fingerprint(program_.frozen());
  }
  return newest.root;
}

void TrainingReplica::resume(const LoadedCheckpoint& checkpoint,
                             const std::vector<std::string>& problems) {
  const std::string converted = state_.resume(checkpoint.header.state);
  restore_tensors(checkpoint, state_.tensors());
  state_.frozen_digest = fingerprint(program_.frozen());
  const std::string mixture = other_frozen(checkpoint, state_.frozen_digest);
  if (!mixture.empty()) log_warning("{}", mixture);
  progress_.batch_replicas = 0;
  if (!checkpoint.header.state.value("ended", false)) checkpointer_.failed();
  const auto before = seen_data_from_json(checkpoint.header.state.value("data", json()));
  if (before) {
    int64_t& index = progress_.position.index;
    const int64_t scaled = at_same_share(index, before->train.samples, data_.train.size());
    // In order, what was added comes next.
    index = spec_.data.shuffle ? scaled : std::min(index, scaled);
  }
  // The limits, and what is watched, may differ from those of the run that wrote it.
  const bool was_finished = progress_.finished;
  const double epochs = stepper_.accounting().epochs(progress_);
  const json& settings = checkpoint.header.settings;
  follow_settings(
      progress_, spec_, epochs,
      settings.is_object() ? settings.value("best.mode", std::string()) : std::string());
  progress_.ended_by = reached_limit(progress_, spec_, epochs);
  progress_.finished = progress_.ended_by != EndedBy::nothing;
  progress_.validate |= progress_.finished && !was_finished;
  std::vector<std::string> told = problems;
  if (!converted.empty()) told.push_back(converted);
  if (state_.last_epoch >= 0) {
    told.push_back(
        fmt::format("an earlier start called finish() in epoch {}: training is over, unless its "
                    "settings or arguments change",
                    state_.last_epoch));
  }
  if (before) {
    const std::string other = describe_difference(data_, *before, "the run that wrote it");
    if (!other.empty()) {
      told.push_back("this run " + other);
      log_warning("{}: this run {}", checkpoint.path, other);
    }
  }
  const bool elsewhere = session_.rank() != 0;
  resumed_ = {
      {"step", checkpoint.header.step},
      {"path", elsewhere ? fmt::format("{}:{}", host_name(), checkpoint.path) : checkpoint.path},
      {"problems", told}};
}

// Where there is none yet, the newest checkpoint is lost with its host.
void TrainingReplica::choose_copies() {
  const Folders& folders = session_.folders();
  const int rank = copying_rank(folders);
  const int before =
      std::exchange(copy_folder_, rank < 0 ? -1 : folders[static_cast<size_t>(rank)]);
  if (copy_folder_ >= 0 && copy_folder_ != before) checkpointer_.hurry();
}

void TrainingReplica::conclude(bool finished) {
  reporter_.flush();
  average(program_.buffers());
  if (session_.rank() == 0) {
    const Session::Saving saving(session_);
    const auto told = [this] { return session_.stop_requested() != StopMode::none; };
    const auto write = [this](bool complete) {
      checkpointed_ = checkpointer_.write(header(/*ended=*/true, complete), state_.tensors());
    };
    // Whoever starts the run again gets the model from that checkpoint.
    const auto without_model = [&write] {
      try {
        write(/*complete=*/false);
      } catch (const Error& error) {
        log_warning("{}", error.what());
      }
    };
    const std::string model = finished ? models_.save_trained(told, without_model) : "";
    try {
      write(/*complete=*/finished);
    } catch (const NotFinite& error) {
      if (model.empty()) throw;
      log_warning("{}", error.what());  // the model is good, and nothing could go on from there
    } catch (const Error& error) {
      if (model.empty()) throw;
      // A later start with more epochs would silently continue from an older state.
      fail(
          "the trained model is saved in {}, but the final checkpoint is not: {}; free space or "
          "repair the disk, and run the same command again: it continues from the newest "
          "checkpoint",
          model, error.what());
    }
    session_.emit({{"event", "end"},
                   {"result", finished ? "finished" : "stopped"},
                   {"steps", progress_.step},
                   {"progress", progress_.iterations},
                   {"skipped", progress_.skipped},
                   {"ended_by", finished ? json(name_of(progress_.ended_by)) : json(nullptr)},
                   {"reason", finished ? describe_end(progress_, spec_) : ""},
                   {"model", model.empty() ? json(nullptr) : json(model)},
                   {"best", models_.best(progress_)},
                   {"validation", progress_.validation}});
  }
  if (session_.rank() != 0 && copying_rank(session_.folders()) == session_.rank()) {
    const Session::Saving saving(session_);
    try {
      // Whoever goes on from a copy gets the model from it.
      checkpointer_.write(header(/*ended=*/true, /*finished=*/false), state_.tensors(),
                          Checkpointer::Kind::copy);
    } catch (const Error& error) {
      log_warning("{}", error.what());
    }
  }
  // If rank 0 dies while it saves, the others are still there to do it.
  if (auto* communicator = session_.communicator()) communicator->barrier();
}

std::string TrainingReplica::save_best() {
  if (session_.rank() != 0 || !models_.wants_best(progress_.step)) return "";
  const Session::Saving saving(session_);  // the others wait in the next step
  reached(StepHooks::Point::saving_best, progress_.step);
  return models_.save_best(progress_.step);
}

CheckpointHeader TrainingReplica::header(bool ended, bool finished) const {
  CheckpointHeader header;
  header.job = options_.name;
  header.step = progress_.step;
  header.generation = session_.generation();
  header.finished = finished;
  header.state = state_.summary();
  header.state["data"] = to_json(seen_data(data_));
  header.state["ended"] = ended;  // the run was told to, or had finished: no failure
  for (const auto& line : describe(spec_)) header.settings[line.key] = line.value;
  return header;
}

}  // namespace adaptdl
