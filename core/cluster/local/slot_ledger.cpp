#include "core/cluster/local/slot_ledger.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::local {

int SlotLedger::free() const {
  return static_cast<int>(std::count(owners_.begin(), owners_.end(), ""));
}

std::vector<int> SlotLedger::held_by(const std::string& job) const {
  std::vector<int> slots;
  for (size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == job) slots.push_back(static_cast<int>(i));
  }
  return slots;
}

std::vector<int> SlotLedger::take(const std::string& job, int count) {
  ADAPTDL_CHECK(count <= free());
  std::vector<int> taken;
  for (size_t i = 0; i < owners_.size() && static_cast<int>(taken.size()) < count; ++i) {
    if (!owners_[i].empty()) continue;
    owners_[i] = job;
    taken.push_back(static_cast<int>(i));
  }
  return taken;
}

void SlotLedger::hold(const std::string& job, const std::vector<int>& slots) {
  for (const int slot : slots) {
    if (slot < 0 || slot >= count()) continue;
    std::string& owner = owners_[static_cast<size_t>(slot)];
    if (owner.empty()) owner = job;
  }
}

void SlotLedger::keep_only(const std::string& job, const std::vector<int>& kept) {
  for (const int slot : held_by(job)) {
    if (std::find(kept.begin(), kept.end(), slot) == kept.end()) {
      owners_[static_cast<size_t>(slot)].clear();
    }
  }
}

}  // namespace adaptdl::local
