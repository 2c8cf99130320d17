#include "runtime/session/evaluation.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "runtime/checkpoint/store.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/session/batch_policy.h"
#include "runtime/session/check_tensors.h"
#include "runtime/session/checkpointer.h"
#include "runtime/session/device.h"
#include "runtime/session/load_weights.h"
#include "runtime/session/model_tensors.h"
#include "runtime/session/progress.h"
#include "runtime/session/state_digest.h"
#include "runtime/session/step_accounting.h"
#include "runtime/session/step_failure.h"
#include "runtime/session/sync.h"
#include "runtime/session/validator.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

using nlohmann::json;

const data::Data& with_validation(const data::Data& data) {
  if (!data.validation) {
    fail(
        "nothing to evaluate on: the settings name no validation data; set data.validation or "
        "data.validation_fraction");
  }
  return data;
}

std::vector<NamedTensor> tensors_of(Program& program, const std::vector<std::string>& frozen) {
  std::vector<NamedTensor> all = model_tensors(program);
  for (auto& named : frozen_tensors(program, frozen)) all.push_back(std::move(named));
  return all;
}

// So that nobody takes the metrics for those of the file alone.
void warn_of(const std::string& path, const char* what, const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), kMost);
  log_warning("{}: {}: {}{}", path, what,
              fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
              shown < names.size() ? fmt::format(", ... ({})", names.size()) : "");
}

// What is evaluated: {path, step, epoch, atomic_limit, frozen}; of weights without a checkpoint,
// step and epoch are null. The limit is the Progress's; `frozen` are the names of the frozen
// tensors that are not the program's own.
json load_model(Program& program, const TrainingSpec& spec, const TrainOptions& options,
                double iterations_per_epoch) {
  if (!options.checkpoint_dir.empty()) {
    std::vector<std::string> problems;
    const auto checkpoint = CheckpointStore(options.checkpoint_dir, 1).latest(&problems);
    if (checkpoint) {
      const auto frozen = checkpoint->header.state.value("frozen", std::vector<std::string>());
      restore_tensors(*checkpoint, tensors_of(program, frozen));
      const std::string mixture = other_frozen(*checkpoint, fingerprint(program.frozen()));
      if (!mixture.empty()) log_warning("{}", mixture);
      const Progress progress = progress_from_json(checkpoint->header.state.at("progress"));
      return {{"path", checkpoint->path},
              {"step", progress.step},
              {"epoch", progress.iterations / iterations_per_epoch},
              {"atomic_limit", progress.atomic_limit},
              {"frozen", frozen}};
    }
    if (!problems.empty()) {
      fail("no usable checkpoint in {}: {}", options.checkpoint_dir, problems.front());
    }
  }
  if (!spec.from) {
    fail("nothing to evaluate: no checkpoint in {}; train first, or name weights with --from FILE",
         options.checkpoint_dir);
  }
  const LoadedWeights loaded = load_weights(program, *spec.from, options.data_dir);
  warn_of(loaded.path, "of the model, not in the file, or of another shape", loaded.kept);
  warn_of(loaded.path, "of the file, not used", loaded.skipped);
  return {{"path", loaded.path},
          {"step", nullptr},
          {"epoch", nullptr},
          {"atomic_limit", 0},
          {"frozen", loaded.frozen}};
}

json validation_event(const json& loaded, const std::map<std::string, double>& metrics) {
  return {{"event", "validation"},
          {"step", loaded.at("step")},
          {"epoch", loaded.at("epoch")},
          {"metrics", metrics}};
}

json end_event(const json& loaded, const std::map<std::string, double>& metrics) {
  return {{"event", "end"},
          {"result", "finished"},
          {"model", loaded.at("path")},
          {"validation", metrics}};
}

class Evaluation {
 public:
  Evaluation(Program& program, const TrainingSpec& spec, const TrainOptions& options,
             Session& session)
      : program_(program),
        spec_(spec),
        options_(options),
        session_(session),
        data_(with_validation(*options.data)),
        batch_policy_(spec, data_.train.size()),
        atomic_limit_(options.atomic_limit) {
    if (!program.can_validate()) {
      fail("nothing to evaluate with: the program has no validation_step");
    }
    validator_.emplace(program, *data_.validation, options.device, spec.precision);
  }

  // In the present generation. Throws comm::Aborted if it breaks.
  void run() {
    comm::Communicator* communicator = session_.communicator();
    options_.hooks->reached(StepHooks::Point::syncing, 0, session_.member());
    StepMark mark;
    mark.atomic_limit = stricter(atomic_limit_, session_.atomic_limit());
    for (const int64_t limit : agree(communicator, mark).atomic_limits) {
      atomic_limit_ = stricter(atomic_limit_, limit);
    }
    json loaded = json::object();
    if (session_.rank() == 0) {
      loaded =
          load_model(program_, spec_, options_, iterations_per_epoch(spec_, data_.train.size()));
    }
    if (communicator) {
      SyncPlan plan;
      plan.root = 0;
      plan.receive = session_.rank() != 0;
      plan.transfer = true;
      transfer(*communicator, plan, loaded,
               [&](const json& from_root) { return tensors_of(program_, from_root.at("frozen")); });
    }
    const json step = loaded.at("step");
    session_.report_switched(step.is_null() ? 0 : step.get<int64_t>());
    if (session_.threads() > 0 && !spec_.deterministic) at::set_num_threads(session_.threads());
    atomic_limit_ = stricter(atomic_limit_, loaded.at("atomic_limit").get<int64_t>());
    const auto metrics = validate_or_shrink();
    session_.emit(validation_event(loaded, metrics));
    session_.emit(end_event(loaded, metrics));
    // If rank 0 dies before its events have left, the others are still there to begin again.
    if (communicator) communicator->barrier();
  }

 private:
  int64_t samples_at_once() const {
    const int64_t atomic = batch_policy_.initial(session_.replicas(), atomic_limit_).atomic;
    return batch_policy_.to_validate(atomic, atomic_limit_);
  }

  std::map<std::string, double> validate_or_shrink() {
    comm::Communicator* communicator = session_.communicator();
    for (;;) {
      const int64_t samples = samples_at_once();
      session_.report_passes(samples);
      try {
        return validator_->run(communicator, session_.replicas(), session_.rank(), samples,
                               spec_.shards());
      } catch (const comm::Aborted&) {
        throw;
      } catch (const std::exception& error) {
        if (!out_of_memory(error) || !batch_policy_.smaller_atomic(samples)) throw;
        log_warning("memory ran out in the evaluation: {}", reason_of(error));
      }
      // The others begin again, too, in a new generation, and learn of the limit there.
      const std::string cause = fmt::format("replica {} ran out of memory", session_.member());
      if (communicator) communicator->abort(cause);
      atomic_limit_ = try_samples(*batch_policy_.smaller_atomic(samples));
      if (communicator) throw comm::Aborted(cause);
    }
  }

  // The largest number of samples up to `most`, by halves, for which memory suffices.
  int64_t try_samples(int64_t most) {
    for (int64_t samples = most;; samples = *batch_policy_.smaller_atomic(samples)) {
      session_.report_passes(samples);
      try {
        validator_->metrics(samples);
        return samples;
      } catch (const std::exception& error) {
        if (!out_of_memory(error) || !batch_policy_.smaller_atomic(samples)) throw;
      }
    }
  }

  Program& program_;
  const TrainingSpec& spec_;
  const TrainOptions& options_;
  Session& session_;
  data::Data data_;
  std::optional<Validator> validator_;
  BatchPolicy batch_policy_;
  int64_t atomic_limit_ = 0;  // as Progress's
};

}  // namespace

int evaluate(Program& program, const TrainingSpec& spec, const TrainOptions& options,
             Session& session) {
  check_tensors(program);
  Evaluation evaluation(program, spec, options, session);
  session.set_device(torch_device(options.device), gpu_id(options.device));
  session.announce(
      {{"libtorch", TORCH_VERSION}, {"device", c10::str(options.device)}, {"evaluates", true}});
  bool member = session.await_next();
  while (member) {
    try {
      evaluation.run();
      session.send({{"type", "bye"}, {"result", "finished"}, {"checkpoint", false}});
      return 0;
    } catch (const comm::Aborted& broken) {
      log_warning("generation {} ended: {}", session.generation(), broken.what());
      session.report_lost(broken.what());
      member = session.await_next();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      // As in a training: the death of this replica, until another one fails there.
      throw StepFailure(fmt::format("in the evaluation: {}", reason_of(error)), 1, ExitCode::error);
    }
  }
  session.send({{"type", "bye"}, {"result", "left"}});
  return 0;
}

}  // namespace adaptdl
