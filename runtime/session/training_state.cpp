#include "runtime/session/training_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/base64.h"
#include "core/formats/crc32c.h"
#include "runtime/session/model_tensors.h"
#include "runtime/session/seen_data.h"

namespace adaptdl {

using nlohmann::json;

namespace {

constexpr size_t kMostArguments = 16u << 20;
constexpr const char* kFinishedBy = "finished_by";
// The units of the progress: M0, of its iterations and statistics, and iterations of an epoch.
constexpr const char* kInitialBatch = "initial_batch";
constexpr const char* kPerEpoch = "iterations_per_epoch";

// An earlier version did not save it. For continuous data it was no whole number then.
double unsaved_per_epoch(const json& summary, const TrainingSpec& spec, double now) {
  const auto data = seen_data_from_json(summary.value("data", json()));
  if (!spec.data.continuous || !data || data->train.samples <= 0) return now;
  return static_cast<double>(data->train.samples) / static_cast<double>(spec.batch.initial);
}

// How the program was called that calls finish(): its arguments and settings.
std::string call_of_finish(const TrainingSpec& spec) {
  uint32_t words = 0;
  for (const SettingLine& line : describe(spec)) {
    words = crc32c(line.key + "=" + line.value + "\n", words);
  }
  try {
    const std::string all = read_file("/proc/self/cmdline", kMostArguments);
    const size_t first = std::min(all.find('\0'), all.size());  // its name may be written otherwise
    words = crc32c(std::string_view(all).substr(first), words);
  } catch (const Error&) {  // a program that its user may only execute
  }
  return fmt::format("{:08x}", words);
}

}  // namespace

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
          {kInitialBatch, spec_.batch.initial},
          {kPerEpoch, schedule_.iterations_per_epoch()},
          {"fresh_at", fresh_at},
          {"last_epoch", last_epoch},
          {kFinishedBy, last_epoch >= 0 ? call_of_finish(spec_) : ""},
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

// After settings or data have changed, training goes on at the same epoch.
std::string TrainingState::convert_units(const json& summary) {
  const int64_t initial = spec_.batch.initial;
  const int64_t initial_before = summary.value(kInitialBatch, initial);
  const double per_epoch = schedule_.iterations_per_epoch();
  const double before = summary.value(kPerEpoch, unsaved_per_epoch(summary, spec_, per_epoch));
  if (initial == initial_before && per_epoch == before) return "";
  if (before > 0) progress.iterations *= per_epoch / before;
  std::string told = fmt::format(
      "an epoch has {:.6g} iterations of the initial batch, {:.6g} before: training goes on at the "
      "same epoch",
      per_epoch, before);
  if (initial != initial_before) {
    progress.statistics = gns::GradientStatistics(optimizer_.group_count(), spec_.statistics);
    progress.fresh = 0;
    told += ", with new gradient statistics";
  }
  return told;
}

std::string TrainingState::resume(const json& summary) {
  restore(summary);
  // With other settings or arguments the program decides again.
  if (last_epoch >= 0 && summary.value(kFinishedBy, "") != call_of_finish(spec_)) last_epoch = -1;
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
  return convert_units(summary);
}

}  // namespace adaptdl
