#include "core/launch/hosts/quorum.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace adaptdl::launch {

namespace {

// Hosts that are here, themselves or another process in their place. Borrows them.
class Present {
 public:
  explicit Present(const Quorum::Hosts& here) {
    for (const Roster::Host& host : here) {
      ids_.insert(host.id);
      if (host.port != 0) places_.insert({host.address, host.port});
    }
  }
  bool has(const Roster::Host& host) const {
    return ids_.contains(host.id) || places_.contains({host.address, host.port});
  }

 private:
  std::set<std::string_view> ids_;
  std::set<std::pair<std::string_view, uint16_t>> places_;
};

}  // namespace

void Quorum::settle(const Roster& roster, bool folder_decides) {
  settled_ = roster;
  state_ = State::leads;
  guards_ = !roster.shared && roster.any_may_lead() && !folder_decides;
  // All may know a roster of a host that has left since.
  std::erase_if(left_, [&](const std::string& id) { return roster.find(id) == nullptr; });
}

void Quorum::succeed(const Roster& before, bool folder_decides) {
  settle(before, folder_decides);
  state_ = State::succeeds;
}

void Quorum::come_again(const Roster& before) {
  settle(before, false);
  state_ = State::comes_again;
}

// Those cannot go on without the launcher: its own host, those that are here, and those that were
// told to stop, or in whose place another process listens now. Hosts that have come since the
// settled roster say nothing about the lost ones.
bool Quorum::holds(const Hosts& here) const {
  const Present present(here);
  const auto bound = [&](const Roster::Host& host) {
    return left_.contains(host.id) || present.has(host);
  };
  const auto listed = static_cast<int>(settled_.hosts.size());
  const auto others = static_cast<int>(std::ranges::count_if(settled_.hosts, bound));
  switch (state_) {
    case State::comes_again:
      return others == listed;
    case State::succeeds:
      return others >= enough_without_launcher(settled_.size);
    case State::leads:
      break;
  }
  return settled_.size - listed + others >= enough_with_launcher(settled_.size);
}

Quorum::Hosts Quorum::lost(const Hosts& here) const {
  const Present present(here);
  Hosts all;
  for (const Roster::Host& host : settled_.hosts) {
    if (host.port != 0 && !left_.contains(host.id) && !present.has(host)) all.push_back(host);
  }
  return all;
}

const Roster& Quorum::to_remember(const Roster& newest) const {
  return guards_ && !newest.shared && settled_.size > 0 ? settled_ : newest;
}

}  // namespace adaptdl::launch
