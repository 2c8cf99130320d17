#pragma once

// Slots of several kinds: as a user names them, or as GPUs are.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/nvml.h"

namespace adaptdl::local {

// How many slots of which kind, as a user asks for them; the kind "": not told.
using SlotCounts = std::vector<std::pair<std::string, int>>;

inline constexpr int kMostSlots = 1024;  // of all kinds

// "4", or "fast=2,slow=6". Throws Error unless there are 1 to kMostSlots, at least one of each
// kind, and kinds have different names, which are not "" if there are several.
SlotCounts parse_slot_counts(std::string_view text);
void check_slot_counts(const SlotCounts& counts);

// The kinds of this machine's GPUs as gpus() lists them, if the driver tells them.
struct GpuKinds {
  bool unlike = false;             // the driver's GPUs are not all alike
  std::vector<std::string> kinds;  // none: all are alike, or nothing is known
  std::string common;              // that of all if they are alike and whole; "": not known
  std::string problem;             // why unlike GPUs are not told apart; "" if they are
};
GpuKinds kinds_of_gpus();

// The kinds of whole GPUs by their entries of gpus(): numbers or UUIDs, or beginnings of those.
// `all`: a driver's, in the order of their PCI addresses; `by_address`: numbers are in that order.
// None if one cannot be found, or is a part of a GPU (MIG).
std::vector<std::string> gpu_kinds(const std::vector<std::string>& entries,
                                   const std::vector<Gpu>& all, bool by_address);

}  // namespace adaptdl::local
