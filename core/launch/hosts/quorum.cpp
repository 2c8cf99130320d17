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

// Whether hosts may go on by that roster while its launcher lives. A shared folder's lock forbids
// it.
bool may_part(const Roster& roster, bool folder_decides) {
  return !roster.shared && roster.any_may_lead() && !folder_decides;
}

}  // namespace

void Quorum::tell(const Roster& roster, bool folder_decides) {
  if (may_part(roster, folder_decides)) told_.push_back(roster);
}

void Quorum::settle(const Roster& roster, bool folder_decides) {
  give_up_lost();  // by older rosters
  if (may_part(roster, folder_decides)) settled_ = roster;
  // All may know a roster of a host that has left since.
  std::erase_if(left_, [&](const std::string& id) { return roster.find(id) == nullptr; });
}

void Quorum::succeed(const Roster& before, bool folder_decides) {
  settle(before, folder_decides);
  if (guards()) state_ = State::succeeds;
}

void Quorum::come_again(const Roster& before) {
  settle(before, false);
  if (guards()) state_ = State::comes_again;
}

void Quorum::give_up_lost() {
  settled_ = {.size = 0};
  told_.clear();
  state_ = State::leads;
}

// Those cannot go on without the launcher: its own host, those that are here, and those that were
// told to stop, or in whose place another process listens now. Hosts that have come since a roster
// say nothing about the lost ones of it.
bool Quorum::holds(const Hosts& here) const {
  const Present present(here);
  const auto bound = [&](const Roster::Host& host) {
    return left_.contains(host.id) || present.has(host);
  };
  const auto others = [&](const Roster& roster) {
    return static_cast<int>(std::ranges::count_if(roster.hosts, bound));
  };
  const auto leads = [&](const Roster& roster) {
    const int own = roster.size - static_cast<int>(roster.hosts.size());
    return own + others(roster) >= enough_with_launcher(roster.size);
  };
  if (!std::ranges::all_of(told_, leads)) return false;
  switch (state_) {
    case State::comes_again:
      return others(settled_) == static_cast<int>(settled_.hosts.size());
    case State::succeeds:
      return others(settled_) >= enough_without_launcher(settled_.size);
    case State::leads:
      break;
  }
  return leads(settled_);
}

Quorum::Hosts Quorum::lost(const Hosts& here) const {
  const Present present(here);
  Hosts all = all_told().hosts;
  std::erase_if(all, [&](const Roster::Host& host) {
    return host.port == 0 || left_.contains(host.id) || present.has(host);
  });
  return all;
}

Roster Quorum::to_remember(const Roster& newest) const {
  return guards() && !newest.shared ? all_told() : newest;
}

Roster Quorum::all_told() const {
  Roster all = oldest();
  for (const Roster& roster : told_) {
    for (const Roster::Host& host : roster.hosts) {
      if (all.find(host.id) != nullptr) continue;
      all.hosts.push_back(host);
      ++all.size;
    }
  }
  return all;
}

}  // namespace adaptdl::launch
