#include "core/cluster/local/slot_kinds.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/base/text.h"

namespace adaptdl::local {

namespace {

constexpr size_t kLongestName = 64;  // of a kind

void check_kind(const std::string& kind) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  const bool joins = kind.find('+') != std::string::npos;  // as joined_kinds() does
  if (kind.empty() || kind.size() > kLongestName || kind.front() == ' ' || kind.back() == ' ' ||
      joins || !std::all_of(kind.begin(), kind.end(), printable)) {
    fail(
        "\"{}\" is no name of a kind: it has 1 to {} printable characters without +, and no space "
        "at its ends",
        kind, kLongestName);
  }
}

}  // namespace

SlotCounts parse_slot_counts(std::string_view text) {
  SlotCounts counts;
  const std::vector<std::string> parts = split(text, ',');
  for (const std::string& part : parts) {
    const size_t equals = part.rfind('=');
    const bool named = equals != std::string::npos;
    const auto count = try_parse<int>(named ? part.substr(equals + 1) : part);
    if (!count || (named ? equals == 0 : parts.size() > 1)) {
      fail("\"{}\" is neither a number nor a list such as fast=2,slow=6", text);
    }
    counts.emplace_back(named ? part.substr(0, equals) : "", *count);
  }
  check_slot_counts(counts);
  return counts;
}

void check_slot_counts(const SlotCounts& counts) {
  if (counts.empty()) fail("there must be at least one slot");
  std::set<std::string> kinds;
  int left = kMostSlots;
  for (const auto& [kind, count] : counts) {
    if (counts.size() > 1 || !kind.empty()) check_kind(kind);
    if (!kinds.insert(kind).second) fail("\"{}\" is there twice", kind);
    if (count < 1 || count > left) {
      fail("there must be 1 to {} slots, and at least one of each kind", kMostSlots);
    }
    left -= count;
  }
}

GpuKinds kinds_of_gpus() {
  try {
    const Nvml driver;
    const std::vector<Gpu>& all = driver.gpus();
    const auto unlike = [&](const Gpu& gpu) { return gpu.name != all.front().name; };
    if (std::none_of(all.begin(), all.end(), unlike)) {
      const bool whole =
          std::none_of(all.begin(), all.end(), [](const Gpu& gpu) { return gpu.divided; });
      return {.common = whole && !all.empty() ? all.front().name : ""};
    }
    // Where neither variable is set, the service sets the second one.
    const bool chosen = environment_variable("CUDA_VISIBLE_DEVICES", true).has_value();
    const auto order = environment_variable("CUDA_DEVICE_ORDER");
    GpuKinds known;
    known.unlike = true;
    known.kinds = gpu_kinds(gpus(), all, order ? *order == "PCI_BUS_ID" : !chosen);
    if (known.kinds.empty()) {
      known.problem =
          "the GPUs are of several kinds, but are not told apart: some are divided (MIG), or which "
          "number is which is not known; restart the service with CUDA_DEVICE_ORDER=PCI_BUS_ID, or "
          "with their UUIDs in CUDA_VISIBLE_DEVICES";
    }
    return known;
  } catch (const Error&) {  // there is no driver
    return {};
  }
}

std::vector<std::string> gpu_kinds(const std::vector<std::string>& entries,
                                   const std::vector<Gpu>& all, bool by_address) {
  std::vector<std::string> kinds;
  for (const std::string& entry : entries) {
    const auto number = try_parse<size_t>(entry);
    if (number && (!by_address || *number >= all.size())) return {};
    const auto found = number ? all.begin() + static_cast<std::ptrdiff_t>(*number)
                              : std::find_if(all.begin(), all.end(), [&](const Gpu& gpu) {
                                  return gpu.uuid.starts_with(entry);
                                });
    if (found == all.end() || found->divided) return {};
    kinds.push_back(found->name);
  }
  return kinds;
}

}  // namespace adaptdl::local
