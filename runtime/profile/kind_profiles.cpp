#include "runtime/profile/kind_profiles.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/job/hints.h"

namespace adaptdl {

bool KindProfiles::train_on(const std::vector<std::string>& replicas) {
  const std::string before = std::exchange(kind_, joined_kinds(replicas));
  replicas_ = replicas;
  return std::exchange(told_, true) && kind_ != before;
}

int64_t KindProfiles::steps(int nodes, int replicas, int64_t atomic) const {
  const auto found = profiles_.find(kind_);
  return found == profiles_.end() ? 0 : found->second.steps(nodes, replicas, atomic);
}

std::optional<PerfParams> KindProfiles::fit() const {
  const auto found = profiles_.find(kind_);
  return found == profiles_.end() ? std::nullopt : found->second.fit();
}

std::map<std::string, PerfParams> KindProfiles::fits() const {
  std::map<std::string, PerfParams> result;
  for (const auto& [kind, profile] : profiles_) {
    if (const auto perf = profile.fit()) result[kind] = *perf;
  }
  return result;
}

int KindProfiles::max_replicas() const {
  int most = 0;
  for (const auto& [kind, profile] : profiles_) most = std::max(most, profile.max_replicas());
  return most;
}

void KindProfiles::limit(const std::string& kind, int64_t atomic) {
  if (atomic <= 0) return;
  const auto [known, added] = limits_.emplace(kind, atomic);
  if (!added) known->second = std::min(known->second, atomic);
}

int64_t KindProfiles::limit_of(const std::string& kind) const {
  const auto found = limits_.find(kind);
  return found == limits_.end() ? 0 : found->second;
}

int64_t KindProfiles::limit() const {
  int64_t least = 0;
  for (const std::string& kind : replicas_) {
    const int64_t one = limit_of(kind);
    if (one > 0 && (least == 0 || one < least)) least = one;
  }
  return least;
}

nlohmann::json KindProfiles::to_json() const {
  auto list = nlohmann::json::array();
  for (const auto& [kind, profile] : profiles_) {
    for (auto& mean : profile.to_json()) {
      mean["accelerator"] = kind;
      list.push_back(std::move(mean));
    }
  }
  return list;
}

void KindProfiles::load(const nlohmann::json& json) {
  const std::string what = "step times";
  if (!json.is_array()) fail("{}: must be a list", what);
  std::map<std::string, nlohmann::json> by_kind;
  for (const auto& item : json) {
    nlohmann::json& list = by_kind[json_get_or<std::string>(item, "accelerator", what, kind_)];
    list.push_back(item);
  }
  std::map<std::string, StepProfile> profiles;
  for (const auto& [kind, list] : by_kind) profiles[kind] = StepProfile::from_json(list);
  profiles_ = std::move(profiles);
}

nlohmann::json KindProfiles::limits_to_json() const {
  return limits_;
}

void KindProfiles::load_limits(const nlohmann::json& json) {
  const std::string what = "limits of the atomic batch";
  if (!json.is_object()) fail("{}: must be an object", what);
  std::map<std::string, int64_t> limits;
  for (const auto& [kind, value] : json.items()) {
    const auto atomic = json_get<int64_t>(json, kind, what);
    if (atomic < 1) fail("{}: {} is out of range", what, dump_json(value));
    limits[kind] = atomic;
  }
  limits_ = std::move(limits);
}

}  // namespace adaptdl
