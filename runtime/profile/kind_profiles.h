#pragma once

// What a run has measured on each kind of accelerator: step times, and what its memory holds. A
// measurement of one kind says nothing about another.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/profile/step_profile.h"

namespace adaptdl {

// The kind of replicas on unlike accelerators is one of its own (joined_kinds()), as their slowest
// one sets the pace. "" is the kind of all that are unknown. Copyable; not thread-safe.
class KindProfiles {
 public:
  // Which kinds the replicas train on from now on, by rank. False if their kind stays what it was,
  // or is the first one.
  bool train_on(const std::vector<std::string>& replicas);
  const std::string& kind() const { return kind_; }

  StepProfile& present() { return profiles_[kind_]; }
  // Of the present kind: StepProfile's.
  int64_t steps(int nodes, int replicas, int64_t atomic) const;
  std::optional<PerfParams> fit() const;

  // Of all kinds that were measured.
  std::map<std::string, PerfParams> fits() const;
  int max_replicas() const;

  // The memory of this kind suffices for `atomic` samples at most; the smallest counts. 0: nothing.
  void limit(const std::string& kind, int64_t atomic);
  int64_t limit_of(const std::string& kind) const;  // 0 = not known
  int64_t limit() const;                            // of all replicas; 0 = none is known
  const std::map<std::string, int64_t>& limits() const { return limits_; }

  // State for checkpoints and new replicas. load() and load_limits() replace it; they throw Error.
  nlohmann::json to_json() const;         // StepProfile's list, each mean with its `accelerator`
  void load(const nlohmann::json& json);  // a mean without one is of the present kind
  nlohmann::json limits_to_json() const;  // {kind: samples}
  void load_limits(const nlohmann::json& json);

 private:
  bool told_ = false;
  std::string kind_;
  std::vector<std::string> replicas_;
  std::map<std::string, StepProfile> profiles_;
  std::map<std::string, int64_t> limits_;
};

}  // namespace adaptdl
