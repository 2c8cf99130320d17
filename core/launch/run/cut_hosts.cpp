#include "core/launch/run/cut_hosts.h"

#include <algorithm>
#include <tuple>

namespace adaptdl::launch {

namespace {

// A member to be there, or null: those that leave connect with nobody any more.
const Member* staying(const View& view, MemberId id) {
  const Member* member = view.find(id);
  const bool stays = member != nullptr && member->state != MemberState::gone && !member->leaving &&
                     !member->said_bye;
  return stays ? member : nullptr;
}

TimePoint ripe(const Cut& cut) {
  return std::max(time_after(cut.since, CutHosts::kPatience),
                  time_after(cut.heard, CutHosts::kSettle));
}

}  // namespace

std::vector<int> smaller_sides(std::set<HostPair> cut, const std::map<int, int>& replicas) {
  const auto weight = [&](int host) {
    const auto found = replicas.find(host);
    return found == replicas.end() ? 0 : found->second;
  };
  std::vector<int> sides;
  while (!cut.empty()) {
    std::map<int, std::pair<int, int>> others;  // of each host: how many, and their replicas
    for (const auto& [one, other] : cut) {
      for (const auto& [host, from] : {HostPair{one, other}, HostPair{other, one}}) {
        ++others[host].first;
        others[host].second += weight(from);
      }
    }
    // What is won without that host, and what is lost.
    const auto rank = [&](const auto& entry) {
      const auto& [host, from] = entry;
      return std::tuple(from.second - weight(host), from.first, host);
    };
    const int out = std::ranges::max_element(others, {}, rank)->first;
    sides.push_back(out);
    std::erase_if(cut,
                  [out](const HostPair& pair) { return pair.first == out || pair.second == out; });
  }
  return sides;
}

std::vector<int> CutHosts::leave_out(const View& view, TimePoint now,
                                     const std::function<int(const Member&)>& host_of) {
  std::set<HostPair> cut;
  std::map<int, int> replicas;
  for (const Member& member : view.members) {
    const bool trains = member.state == MemberState::active && view.current.holds(member.id);
    if (trains) ++replicas[host_of(member)];
  }
  for (const Cut& each : view.cuts) {
    const Member *from = staying(view, each.from), *to = staying(view, each.to);
    if (from == nullptr || to == nullptr || now < ripe(each)) continue;
    const auto [less, more] = std::minmax({host_of(*from), host_of(*to)});
    if (less >= 0 && less != more) cut.insert({less, more});
  }
  std::vector<int> out = smaller_sides(std::move(cut), replicas);
  for (const int host : out) {
    const auto [at, first] = pauses_.try_emplace(host, Pause{kFirstPause, {}});
    Pause& pause = at->second;
    if (!first) {
      const bool was_back = now - pause.until > std::max(kBack, pause.length);
      pause.length = was_back ? kFirstPause : std::min(2 * pause.length, kLongestPause);
    }
    pause.until = time_after(now, pause.length);
    pause.over = false;
  }
  return out;
}

std::vector<int> CutHosts::pause_over(TimePoint now) {
  std::vector<int> hosts;
  for (auto& [host, pause] : pauses_) {
    if (pause.over || now < pause.until) continue;
    pause.over = true;
    hosts.push_back(host);
  }
  return hosts;
}

TimePoint CutHosts::deadline(const View& view) const {
  TimePoint first = TimePoint::max();
  for (const Cut& cut : view.cuts) {
    if (staying(view, cut.from) != nullptr && staying(view, cut.to) != nullptr)
      first = std::min(first, ripe(cut));
  }
  for (const auto& [host, pause] : pauses_) {
    if (!pause.over) first = std::min(first, pause.until);
  }
  return first;
}

}  // namespace adaptdl::launch
