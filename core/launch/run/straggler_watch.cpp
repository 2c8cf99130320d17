#include "core/launch/run/straggler_watch.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::launch {

namespace {

constexpr size_t kLeastOthers = 2;

bool is_usable(const Pace& pace) {
  return std::isfinite(pace.compute_s) && pace.compute_s > 0 && std::isfinite(pace.samples) &&
         pace.samples > 0 && std::isfinite(pace.waited_s) && pace.waited_s >= 0;
}

// The upper one of two: a replica must be slower than either.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<Straggler> compare_paces(const PaceWindow& window) {
  std::vector<Straggler> result;
  if (!std::isfinite(window.seconds) || window.seconds <= 0) return result;
  for (const Pace& mine : window.replicas) {
    if (!is_usable(mine)) continue;
    std::vector<double> sample_s;
    for (const Pace& other : window.replicas) {
      if (other.member == mine.member || other.kind != mine.kind || !is_usable(other)) continue;
      sample_s.push_back(other.compute_s / other.samples);
    }
    if (sample_s.size() < kLeastOthers) continue;
    result.push_back({.member = mine.member,
                      .sample_s = mine.compute_s / mine.samples,
                      .others_sample_s = median(std::move(sample_s)),
                      .waited = std::min(1.0, mine.waited_s / window.seconds)});
  }
  return result;
}

Straggler StragglerWatch::mean(const std::deque<Straggler>& windows) {
  const auto count = static_cast<double>(windows.size());
  Straggler sum{.member = windows.front().member};
  for (const Straggler& one : windows) {
    sum.sample_s += one.sample_s / count;
    sum.others_sample_s += one.others_sample_s / count;
    sum.waited += one.waited / count;
  }
  return sum;
}

std::vector<StragglerWatch::News> StragglerWatch::window(const PaceWindow& window) {
  std::vector<News> news;
  for (const Straggler& now : compare_paces(window)) {
    State& state = states_[now.member];
    state.newest.push_back(now);
    if (state.newest.size() > kWindows) state.newest.pop_front();
    state.slow = now.factor() > kSlow && now.waited > kWaited ? state.slow + 1 : 0;
    state.fast = now.factor() < kFast ? state.fast + 1 : 0;
    const Straggler evidence = mean(state.newest);
    if (!state.named) {
      if (state.slow < kWindows) continue;
      state.named = true;
      news.push_back({News::What::slow, evidence});
    } else if (state.fast >= kWindows) {
      state.named = false;
      news.push_back({News::What::over, evidence});
    } else {
      const double change = evidence.factor() / state.told.factor();
      if (state.slow < kWindows || (change < kChange && change > 1 / kChange)) continue;
      news.push_back({News::What::changed, evidence});
    }
    state.told = evidence;
  }
  return news;
}

std::vector<StragglerWatch::News> StragglerWatch::members(const std::vector<MemberId>& members) {
  std::vector<News> news;
  std::map<MemberId, State> kept;
  for (auto& [id, state] : states_) {
    if (!state.named) continue;
    const bool stays = std::ranges::find(members, id) != members.end();
    if (!stays || members.size() <= kLeastOthers) {
      news.push_back({News::What::gone, mean(state.newest)});
    } else {
      state.slow = state.fast = 0;
      kept[id] = std::move(state);
    }
  }
  states_ = std::move(kept);
  return news;
}

std::vector<Straggler> StragglerWatch::stragglers() const {
  std::vector<Straggler> result;
  for (const auto& [id, state] : states_) {
    if (state.named) result.push_back(mean(state.newest));
  }
  return result;
}

}  // namespace adaptdl::launch
