#include "core/launch/slots.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "core/base/error.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

void check_slots(const std::vector<int>& slots, int per_replica, int replicas) {
  const bool negative = std::any_of(slots.begin(), slots.end(), [](int slot) { return slot < 0; });
  if (negative || std::set<int>(slots.begin(), slots.end()).size() != slots.size()) {
    throw UsageError(fmt::format("invalid slots {}: slot numbers must be distinct and at least 0",
                                 fmt::join(slots, ",")));
  }
  if (per_replica < 1) throw UsageError("a replica needs at least one slot");
  if (slots.empty() || static_cast<size_t>(replicas) <= slots.size() / per_replica) return;
  throw UsageError(fmt::format("too few slots: {} replicas need {} each; there are {}", replicas,
                               per_replica, slots.size()));
}

void check_scale(int replicas, const std::vector<int>& slots, int per_replica) {
  check_slots(slots, per_replica, 0);
  const int most = slots.empty() ? kMaxReplicas : static_cast<int>(slots.size()) / per_replica;
  if (replicas >= 1 && replicas <= most) return;
  fail("invalid number of replicas {}: it must be 1 to {}{}", replicas, most,
       slots.empty() ? "" : fmt::format(", each on {} of {} slots", per_replica, slots.size()));
}

void check_gpus(const std::vector<int>& slots, int gpus) {
  for (const int slot : slots) {
    if (slot >= gpus) fail("invalid slot {}: there are {} GPUs", slot, gpus);
  }
}

std::vector<int> slots_of(const std::vector<int>& slots, int index, int per_replica) {
  if (slots.empty()) return {};
  const auto first = slots.begin() + std::ptrdiff_t{index} * per_replica;
  return {first, first + per_replica};
}

std::string visible_gpus(const std::vector<std::string>& gpus, const std::vector<int>& slots) {
  std::vector<std::string> names;
  for (const int slot : slots) names.push_back(gpus[static_cast<size_t>(slot) % gpus.size()]);
  return fmt::format("{}", fmt::join(names, ","));
}

std::optional<std::string> accelerator_of(const std::vector<int>& slots,
                                          const std::map<int, std::string>& accelerators) {
  const auto found = slots.empty() ? accelerators.end() : accelerators.find(slots.front());
  return found == accelerators.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace adaptdl::launch
