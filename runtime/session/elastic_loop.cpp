#include "runtime/session/elastic_loop.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/log.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/watched_file.h"
#include "runtime/session/step_failure.h"
#include "runtime/session/stop_rules.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

int ElasticLoop::run() {
  const int64_t atomic = batch_policy_.initial(options_.replicas, options_.atomic_limit).atomic;
  const int64_t tried = try_atomic(atomic);
  if (tried < atomic) memory_limit_ = progress_.atomic_limit = tried;
  if (validator_ && (spec_.best || schedule_.watches_validation())) {
    check_metrics(tried);
  }
  announce();
  bool member = session_.await_next();
  while (member) {
    try {
      const Outcome outcome = train_generation();
      return leave(outcome);
    } catch (const comm::Aborted& broken) {
      lost(broken);
      member = session_.await_next();
    }
  }
  return leave(Outcome::left);
}

// So that a misspelt name does not end training at its first validation. Where memory does not
// suffice for that, validations find a batch that fits, and tell then.
void ElasticLoop::check_metrics(int64_t atomic) {
  std::set<std::string> metrics;
  try {
    metrics = validator_->metrics(atomic);
  } catch (const std::exception& error) {
    if (out_of_memory(error)) return;
    throw;
  }
  check_best_metric(spec_, metrics);
  schedule_.check_metrics(metrics);
}

ElasticLoop::Outcome ElasticLoop::train_generation() {
  try {
    return train_on();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // Of LibTorch or the standard library: of this process, as far as anybody knows.
    throw StepFailure(fmt::format("after step {}: {}", progress_.step, reason_of(error)),
                      progress_.step + 1, ExitCode::error);
  }
}

ElasticLoop::Outcome ElasticLoop::train_on() {
  synchronise();
  for (;;) {
    if (progress_.finished && !progress_.validate) {
      conclude(/*finished=*/true);
      return Outcome::finished;
    }
    const Outcome outcome = tick();
    if (outcome != Outcome::go_on) return outcome;
  }
}

ElasticLoop::Outcome ElasticLoop::tick() {
  Prepared prepared;
  {
    const Session::Together together(session_);
    prepared = prepare_or_shrink();
  }
  settle(std::move(prepared));
  return follow_up();
}

Prepared ElasticLoop::prepare_or_shrink() {
  for (;;) {
    std::string cause;
    try {
      return prepare();
    } catch (const comm::Aborted&) {
      throw;
    } catch (const data::DataChanged&) {
      throw;
    } catch (const std::exception& error) {
      const auto smaller =
          out_of_memory(error) ? batch_policy_.smaller_atomic(samples_at_once()) : std::nullopt;
      if (!smaller) throw failed(error);
      log_warning("memory ran out {} step {}: {}",
                  progress_.validate ? "in the validation after" : "in",
                  progress_.step + (progress_.validate ? 0 : 1), error.what());
      progress_.atomic_limit = *smaller;
      cause = fmt::format("replica {} ran out of memory in step {}", session_.member(),
                          progress_.step + 1);
    }
    // The others repeat the step, too, in a new generation, and learn of the limit there.
    auto* communicator = session_.communicator();
    if (communicator) communicator->abort(cause);
    stepper_.abandon();
    try {
      memory_limit_ = progress_.atomic_limit = try_atomic(progress_.atomic_limit);
      batch_policy_.profiles().limit(accelerator(), memory_limit_);
    } catch (const std::exception& error) {
      throw failed(error);
    }
    if (communicator) throw comm::Aborted(cause);
    choose_batch();
    stepper_.read_ahead(progress_, team());
  }
}

// The largest atomic batch up to `most`, by halves, with which a trial step succeeds.
int64_t ElasticLoop::try_atomic(int64_t most) {
  for (int64_t atomic = most;; atomic = *batch_policy_.smaller_atomic(atomic)) {
    session_.report_passes(atomic);
    try {
      stepper_.check_program({atomic, 1});
      return atomic;
    } catch (const std::exception& error) {
      if (!out_of_memory(error) || !batch_policy_.smaller_atomic(atomic)) throw;
    }
  }
}

Prepared ElasticLoop::prepare() {
  session_.report_passes(samples_at_once());
  if (!progress_.validate) return stepper_.prepare(progress_, team(), decisions(), last_step_s_);
  average(program_.buffers());
  if (!validator_) return validated(nullptr);
  const auto metrics = validator_->run(session_.communicator(), session_.replicas(),
                                       session_.rank(), samples_at_once(), spec_.shards());
  return validated(&metrics);
}

}  // namespace adaptdl
