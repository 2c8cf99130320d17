#include "core/cluster/local/slot_ledger.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace adaptdl::local {

SlotLedger::SlotLedger(int count, std::vector<int> kinds)
    : owners_(static_cast<size_t>(count)), kinds_(std::move(kinds)) {
  if (kinds_.empty()) kinds_.resize(owners_.size());
  ADAPTDL_CHECK(kinds_.size() == owners_.size());
}

int SlotLedger::free() const {
  return static_cast<int>(std::count(owners_.begin(), owners_.end(), ""));
}

int SlotLedger::free(int kind) const {
  return static_cast<int>(of_kind(held_by(""), kind).size());
}

std::vector<int> SlotLedger::available(const std::string& job, const std::vector<int>& granted,
                                       int kind) const {
  std::vector<int> own = of_kind(held_by(job), kind), free = of_kind(held_by(""), kind);
  std::erase_if(own, [&](int slot) {
    return std::find(granted.begin(), granted.end(), slot) != granted.end();
  });
  if (!of_kind(granted, kind).empty()) std::swap(own, free);
  own.insert(own.end(), free.begin(), free.end());
  return own;
}

std::vector<int> SlotLedger::held_by(const std::string& job) const {
  std::vector<int> slots;
  for (size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == job) slots.push_back(static_cast<int>(i));
  }
  return slots;
}

std::vector<int> SlotLedger::of_kind(const std::vector<int>& slots, int kind) const {
  std::vector<int> found;
  for (const int slot : slots) {
    if (kind_of(slot) == kind) found.push_back(slot);
  }
  return found;
}

std::vector<int> SlotLedger::take(const std::string& job, int count, int kind,
                                  const std::vector<int>& granted) {
  std::vector<int> taken = available(job, granted, kind);
  ADAPTDL_CHECK(count <= static_cast<int>(taken.size()));
  taken.resize(static_cast<size_t>(count));
  for (const int slot : taken) owners_[static_cast<size_t>(slot)] = job;
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
