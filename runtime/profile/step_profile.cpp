#include "runtime/profile/step_profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/formats/json.h"

namespace adaptdl {
namespace {

constexpr int kSettleGeneration = 3;
constexpr int kSettleBatch = 2;
constexpr int64_t kTrustedSteps = 5;
constexpr double kSlow = 3;
constexpr int kSlowIsNormal = 10;
constexpr double kMostWeight = 512;

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

void StepProfile::begin_generation() {
  whole_.steps = halved_.steps = kSettleGeneration;
}

bool StepProfile::record(const StepTiming& timing) {
  const double compute = timing.optim_s - timing.sync_s;
  if (timing.nodes < 1 || timing.replicas < timing.nodes || timing.atomic < 1 ||
      timing.accum_steps < 0 || !positive(timing.optim_s) || !(timing.sync_s >= 0) ||
      !positive(compute) || (timing.accum_steps > 0 && !positive(timing.accum_s))) {
    return false;
  }
  const Key key{timing.nodes, timing.replicas, timing.atomic};
  Settling& settling = timing.halved ? halved_ : whole_;
  if (key != settling.last) {
    settling.last = key;
    settling.steps = std::max(settling.steps, kSettleBatch);
  }
  if (settling.steps > 0) {
    --settling.steps;
    return false;
  }
  Mean& mean = means_[key];
  if (mean.steps >= kTrustedSteps) {
    const bool slow = timing.optim_s > kSlow * mean.optim_sum / mean.optim_weight ||
                      compute > kSlow * mean.accum_sum / mean.accum_weight;
    mean.slow_in_a_row = slow ? mean.slow_in_a_row + 1 : 0;
    if (mean.slow_in_a_row >= kSlowIsNormal) {
      mean = {};
    } else if (slow) {
      return false;
    }
  }
  mean.accum_sum += compute + timing.accum_steps * (timing.accum_steps > 0 ? timing.accum_s : 0);
  mean.accum_weight += 1 + timing.accum_steps;
  mean.optim_sum += timing.optim_s;
  mean.optim_weight += 1;
  ++mean.steps;
  if (mean.optim_weight >= kMostWeight) {
    for (double* part :
         {&mean.accum_sum, &mean.accum_weight, &mean.optim_sum, &mean.optim_weight}) {
      *part /= 2;
    }
  }
  return true;
}

int64_t StepProfile::steps(int nodes, int replicas, int64_t atomic) const {
  const auto found = means_.find({nodes, replicas, atomic});
  return found == means_.end() ? 0 : found->second.steps;
}

int StepProfile::max_replicas() const {
  int most = 0;
  for (const auto& [key, mean] : means_) most = std::max(most, key.replicas);
  return most;
}

std::vector<PerfObservation> StepProfile::observations() const {
  std::vector<PerfObservation> result;
  for (const auto& [key, mean] : means_) {
    result.push_back({key.nodes, key.replicas, static_cast<double>(key.atomic),
                      mean.accum_sum / mean.accum_weight, mean.optim_sum / mean.optim_weight});
  }
  return result;
}

std::optional<PerfParams> StepProfile::fit() const {
  if (means_.empty()) return std::nullopt;
  return fit_perf_params(observations());
}

nlohmann::json StepProfile::to_json() const {
  auto list = nlohmann::json::array();
  for (const auto& [key, mean] : means_) {
    list.push_back({{"nodes", key.nodes},
                    {"replicas", key.replicas},
                    {"atomic", key.atomic},
                    {"steps", mean.steps},
                    {"accum", {mean.accum_sum, mean.accum_weight}},
                    {"optim", {mean.optim_sum, mean.optim_weight}}});
  }
  return list;
}

StepProfile StepProfile::from_json(const nlohmann::json& json) {
  const std::string what = "step times";
  if (!json.is_array()) fail("{}: must be a list", what);
  constexpr size_t kMostMeans = 100'000;
  if (json.size() > kMostMeans) fail("{}: too many entries: {}", what, json.size());
  StepProfile profile;
  for (const auto& item : json) {
    const Key key{json_get<int>(item, "nodes", what), json_get<int>(item, "replicas", what),
                  json_get<int64_t>(item, "atomic", what)};
    Mean mean;
    mean.steps = json_get<int64_t>(item, "steps", what);
    const auto accum = json_get<std::vector<double>>(item, "accum", what);
    const auto optim = json_get<std::vector<double>>(item, "optim", what);
    const bool good = key.nodes >= 1 && key.replicas >= key.nodes && key.atomic >= 1 &&
                      mean.steps >= 1 && accum.size() == 2 && optim.size() == 2 &&
                      std::all_of(accum.begin(), accum.end(), positive) &&
                      std::all_of(optim.begin(), optim.end(), positive) &&
                      positive(accum[0] / accum[1]) && positive(optim[0] / optim[1]);
    if (!good) fail("{}: an entry is out of range: {}", what, dump_json(item));
    mean.accum_sum = accum[0];
    mean.accum_weight = accum[1];
    mean.optim_sum = optim[0];
    mean.optim_weight = optim[1];
    profile.means_[key] = mean;
  }
  return profile;
}

}  // namespace adaptdl
