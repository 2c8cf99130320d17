#include "core/launch/run/link_watch.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::launch {

namespace {

constexpr size_t kLeastHosts = 3;
// Kernels count busy time in ticks of up to 10 ms: what takes less is not known to be faster.
constexpr double kTick = 0.01;  // s
// Linux acknowledges within 40 ms what it need not acknowledge at once.
constexpr double kLate = 0.04;  // s

// Of a connection or of a host.
struct Use {
  double byte_s = 0;  // seconds for a byte
  double busy = 0;    // share of the time

  void raise(double busy_s, double bytes, double seconds) {
    byte_s = std::max(byte_s, std::max(busy_s, kTick) / bytes);
    busy = std::max(busy, std::min(1.0, busy_s / seconds));
  }
};

// Without and with late acknowledgements.
struct Uses {
  Use least, most;
};

using Ends = std::pair<MemberId, MemberId>;  // the lower one first

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Use median_of(const std::vector<Use>& all, double (*median)(std::vector<double>)) {
  std::vector<double> byte_s, busy;
  for (const Use& use : all) {
    byte_s.push_back(use.byte_s);
    busy.push_back(use.busy);
  }
  return {median(std::move(byte_s)), median(std::move(busy))};
}

bool is_usable(const LinkWindow& window, const LinkWindow::To& to) {
  return std::isfinite(window.seconds) && window.seconds > 0 && std::isfinite(to.bytes) &&
         to.bytes > 0 && std::isfinite(to.busy_s) && to.busy_s >= 0 && to.host != window.from &&
         std::isfinite(window.collectives) && window.collectives >= 0;
}

std::map<Ends, Uses> connections(const std::map<MemberId, LinkWindow>& windows) {
  std::map<Ends, Uses> result;
  for (const auto& [from, window] : windows) {
    for (const LinkWindow::To& to : window.to) {
      if (!is_usable(window, to)) continue;
      Uses& uses = result[std::minmax(from, to.host)];
      const double late = std::min(to.busy_s, kLate * window.collectives);
      uses.least.raise(to.busy_s - late, to.bytes, window.seconds);
      uses.most.raise(to.busy_s, to.bytes, window.seconds);
    }
  }
  return result;
}

SlowLink compare(MemberId host, std::optional<MemberId> peer, const Use& mine, const Use& others) {
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
std::vector<SlowLink> compare_links(const std::map<MemberId, LinkWindow>& windows) {
  const std::map<Ends, Uses> links = connections(windows);
  struct Host {
    std::vector<Use> least, most;  // of its connections
  };
  std::map<MemberId, Host> hosts;
  std::vector<Use> all;
  for (const auto& [ends, uses] : links) {
    for (const MemberId end : {ends.first, ends.second}) {
      hosts[end].least.push_back(uses.least);
      hosts[end].most.push_back(uses.most);
    }
    all.push_back(uses.most);
  }
  std::vector<SlowLink> result;
  if (hosts.size() < kLeastHosts) return result;
  std::map<MemberId, Use> worth;
  for (const auto& [id, host] : hosts) worth[id] = median_of(host.most, lower_median);
  std::map<MemberId, bool> slow;
  for (const auto& [id, host] : hosts) {
    std::vector<Use> others;
    for (const auto& [other, use] : worth) {
      if (other != id) others.push_back(use);
    }
    result.push_back(compare(id, std::nullopt, median_of(host.least, lower_median),
                             median_of(others, upper_median)));
    slow[id] = SlowWatch<SlowLink>::is_slow(result.back());
  }
  const Use usual = median_of(all, upper_median);
  for (const auto& [ends, uses] : links) {
    if (slow[ends.first] || slow[ends.second]) continue;
    result.push_back(compare(ends.first, ends.second, uses.least, usual));
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

std::vector<LinkWatch::News> LinkWatch::members(const std::vector<MemberId>& members) {
  windows_.clear();
  const auto trains = [&](MemberId id) { return std::ranges::find(members, id) != members.end(); };
  return watch_.keep(
      [&](const auto& key) { return trains(key.first) && (!key.second || trains(*key.second)); });
}

}  // namespace adaptdl::launch
