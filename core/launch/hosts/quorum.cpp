#include "core/launch/hosts/quorum.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace adaptdl::launch {

void Quorum::settle(const Roster& roster, bool folder_decides) {
  settled_ = roster;
  succeeds_ = false;
  guards_ = !roster.shared && roster.any_may_lead() && !folder_decides;
  // All may know a roster of a host that has left since.
  std::erase_if(left_, [&](const std::string& id) { return roster.find(id) == nullptr; });
}

void Quorum::succeed(const Roster& before, bool folder_decides) {
  settle(before, folder_decides);
  succeeds_ = true;
}

// Those cannot go on without the launcher: its own host, those that are here, and those that were
// told to stop, or in whose place another process listens now. Hosts that have come since the
// settled roster say nothing about the lost ones.
bool Quorum::holds(const Hosts& here) const {
  std::set<std::string_view> ids(left_.begin(), left_.end());
  std::set<std::pair<std::string_view, uint16_t>> places;
  for (const Roster::Host& host : here) {
    ids.insert(host.id);
    if (host.port != 0) places.insert({host.address, host.port});
  }
  const auto bound = [&](const Roster::Host& host) {
    return ids.contains(host.id) || places.contains({host.address, host.port});
  };
  const auto others = static_cast<int>(std::ranges::count_if(settled_.hosts, bound));
  if (succeeds_) return others >= enough_without_launcher(settled_.size);
  const auto own = settled_.size - static_cast<int>(settled_.hosts.size());
  return own + others >= enough_with_launcher(settled_.size);
}

Quorum::Hosts Quorum::lost(const Hosts& here) const {
  Hosts all;
  for (const Roster::Host& host : settled_.hosts) {
    const bool is_here = std::ranges::count(here, host.id, &Roster::Host::id) != 0;
    if (!is_here && host.port != 0) all.push_back(host);
  }
  return all;
}

const Roster& Quorum::to_remember(const Roster& newest) const {
  return guards_ && !newest.shared && settled_.size > 0 ? settled_ : newest;
}

}  // namespace adaptdl::launch
