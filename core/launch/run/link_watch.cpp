#include "core/launch/run/link_watch.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::launch {

namespace {

// Kernels count busy time in ticks of up to 10 ms: what takes less is not known to be faster.
constexpr double kTick = 0.01;  // s

// Of a connection or of a host.
struct Use {
  double busy = 0;    // share of the time
  double byte_s = 0;  // seconds for a byte
  auto operator<=>(const Use&) const = default;
};

using Ends = std::pair<int, int>;  // the lower one first

enum class Between { lower, upper };  // which one of two in the middle

Use median_use(std::vector<Use> values, Between between) {
  const size_t ends = between == Between::lower ? values.size() - 1 : values.size();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(ends / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_usable(const LinkWindow& window, const LinkWindow::To& to) {
  return std::isfinite(window.seconds) && window.seconds > 0 && std::isfinite(to.bytes) &&
         to.bytes >= 1 && std::isfinite(to.busy_s) && to.busy_s >= 0 && to.host != window.from;
}

std::map<Ends, Use> connections(const std::map<int, LinkWindow>& windows) {
  std::map<Ends, Use> result;
  for (const auto& [from, window] : windows) {
    for (const LinkWindow::To& to : window.to) {
      if (!is_usable(window, to)) continue;
      const Use use{.busy = std::min(1.0, to.busy_s / window.seconds),
                    .byte_s = std::max(to.busy_s, kTick) / to.bytes};
      const auto [found, first] = result.try_emplace(std::minmax(from, to.host), use);
      if (!first) found->second = std::max(found->second, use);
    }
  }
  return result;
}

SlowLink compare(int host, std::optional<int> peer, const Use& mine, const Use& others) {
  return {.host = host,
          .peer = peer,
          .byte_s = mine.byte_s,
          .others_byte_s = others.byte_s,
          .waited = std::max(0.0, mine.busy - others.busy)};
}

}  // namespace

SlowLink SlowLink::mean(const std::deque<SlowLink>& windows) {
  const auto count = static_cast<double>(windows.size());
  SlowLink sum{.host = windows.front().host, .peer = windows.front().peer};
  for (const SlowLink& one : windows) {
    sum.byte_s += one.byte_s / count;
    sum.others_byte_s += one.others_byte_s / count;
    sum.waited += one.waited / count;
  }
  return sum;
}

// In doubt, as between two values, what is judged is the faster one, and the others are the slower.
std::vector<SlowLink> compare_links(const std::map<int, LinkWindow>& windows) {
  const std::map<Ends, Use> links = connections(windows);
  std::map<int, std::vector<Use>> links_of;
  std::vector<Use> all;
  for (const auto& [ends, use] : links) {
    for (const int end : {ends.first, ends.second}) links_of[end].push_back(use);
    all.push_back(use);
  }
  std::vector<SlowLink> result;
  if (links_of.size() < LinkWatch::kLeastHosts) return result;
  std::map<int, Use> hosts;
  for (const auto& [host, its] : links_of) hosts[host] = median_use(its, Between::lower);
  std::map<int, bool> slow;
  for (const auto& [host, mine] : hosts) {
    std::vector<Use> others;
    for (const auto& [other, use] : hosts) {
      if (other != host) others.push_back(use);
    }
    result.push_back(
        compare(host, std::nullopt, mine, median_use(std::move(others), Between::upper)));
    slow[host] = SlowWatch<SlowLink>::is_slow(result.back());
  }
  const Use usual = median_use(std::move(all), Between::upper);
  for (const auto& [ends, use] : links) {
    if (slow[ends.first] || slow[ends.second]) continue;
    result.push_back(compare(ends.first, ends.second, use, usual));
  }
  return result;
}

std::vector<LinkWatch::News> LinkWatch::window(const LinkWindow& window) {
  windows_[window.from] = window;
  for (const auto& [from, known] : windows_) {
    for (const LinkWindow::To& to : known.to) {
      if (!windows_.contains(to.host)) return {};
    }
  }
  return watch_.window(compare_links(std::exchange(windows_, {})));
}

std::vector<LinkWatch::News> LinkWatch::hosts(const std::set<int>& hosts) {
  windows_.clear();
  const bool watched = hosts.size() >= kLeastHosts && hosts.size() <= kMostHosts;
  return watch_.keep([&](const auto& key) {
    return watched && hosts.contains(key.first) && (!key.second || hosts.contains(*key.second));
  });
}

}  // namespace adaptdl::launch
