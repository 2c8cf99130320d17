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

Straggler Straggler::mean(const std::deque<Straggler>& windows) {
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
  return watch_.window(compare_paces(window));
}

std::vector<StragglerWatch::News> StragglerWatch::members(const std::vector<MemberId>& members) {
  return watch_.keep([&](MemberId id) {
    return members.size() > kLeastOthers && std::ranges::find(members, id) != members.end();
  });
}

}  // namespace adaptdl::launch
