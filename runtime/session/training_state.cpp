#include "runtime/session/training_state.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/formats/base64.h"
#include "runtime/session/model_tensors.h"

namespace adaptdl {

using nlohmann::json;

TrainingState::TrainingState(Program& program, const TrainingSpec& spec, Optimizer& optimizer,
                             Schedule& schedule, BatchPolicy& batch_policy,
                             Checkpointer& checkpointer)
    : program_(program),
      spec_(spec),
      optimizer_(optimizer),
      schedule_(schedule),
      batch_policy_(batch_policy),
      checkpointer_(checkpointer) {
  progress.statistics = gns::GradientStatistics(optimizer.group_count(), spec.statistics);
  progress.loss_scale = LossScale::first(spec.precision);
  progress.next_validation = spec.validate_every_epochs;
}

std::vector<NamedTensor> TrainingState::trained_tensors() const {
  std::vector<NamedTensor> all;
  for (auto& named : program_.parameters()) {
    all.push_back({kParameterPrefix + named.name, named.tensor});
  }
  for (auto& named : optimizer_.state_tensors()) {
    all.push_back({"optimizer/" + named.name, named.tensor});
  }
  return all;
}

std::vector<NamedTensor> TrainingState::tensors(const std::vector<NamedTensor>& buffers) const {
  std::vector<NamedTensor> all = trained_tensors();
  for (const auto& named : buffers) all.push_back({kBufferPrefix + named.name, named.tensor});
  for (auto& named : frozen_tensors(program_, loaded_frozen)) all.push_back(std::move(named));
  return all;
}

json TrainingState::summary() const {
  return {{"precision", name_of(spec_.precision)},
          {"progress", to_json(progress)},
          {"fresh_at", fresh_at},
          {"last_epoch", last_epoch},
          {"schedule", schedule_.state()},
          {"profile", batch_policy_.profiles().to_json()},
          {"atomic_limits", batch_policy_.profiles().limits_to_json()},
          {"optimizer", optimizer_.counters()},
          {"checkpoints", checkpointer_.state()},
          {"frozen", loaded_frozen},
          {kFrozenDigest, frozen_digest},
          {"program", to_base64(program_.state())}};
}

void TrainingState::restore(const json& summary) {
  progress = progress_from_json(summary.at("progress"));
  fresh_at = summary.value("fresh_at", int64_t{0});
  last_epoch = summary.value("last_epoch", int64_t{-1});
  schedule_.load_state(summary.at("schedule"));
  KindProfiles& profiles = batch_policy_.profiles();
  profiles.load(summary.at("profile"));
  // An earlier version knew one limit, that of its accelerators.
  const json limits = {{profiles.kind(), progress.atomic_limit}};
  profiles.load_limits(
      summary.value("atomic_limits", progress.atomic_limit > 0 ? limits : json::object()));
  optimizer_.prepare_state(summary.at("optimizer"));
  checkpointer_.load_state(summary.value("checkpoints", json()));
  loaded_frozen = summary.value("frozen", std::vector<std::string>());
  frozen_digest = summary.value(kFrozenDigest, "");
  const std::string own = from_base64(summary.value("program", ""), "the program's state");
  if (!own.empty()) program_.load_state(own);
}

void TrainingState::resume(const json& summary) {
  restore(summary);
  // Other groups, or another averaging.
  if (progress.statistics.groups() != optimizer_.group_count() ||
      progress.statistics.averaging() != spec_.statistics) {
    progress.statistics = gns::GradientStatistics(optimizer_.group_count(), spec_.statistics);
    progress.fresh = 0;
  }
  // An earlier version did not save the precision. A loss scale above 1 was of fp16.
  const auto fp16 = name_of(TrainingSpec::Precision::fp16);
  const std::string before = summary.value("precision", progress.loss_scale.factor > 1 ? fp16 : "");
  if ((before == fp16) != (spec_.precision == TrainingSpec::Precision::fp16)) {
    progress.loss_scale = LossScale::first(spec_.precision);
  }
}

}  // namespace adaptdl
