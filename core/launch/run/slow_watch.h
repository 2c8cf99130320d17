#pragma once

// Which of several things that should be alike are much slower than the others, by evidence in
// windows. One is slow if in kWindows windows in a row it is more than E::kSlow times as slow as
// the others, and these wait for it for more than kWaited of the time: what disturbs a single
// window names nothing. It is slow until it has been less than E::kFast times as slow in as many
// windows in a row, or in none of them.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace adaptdl::launch {

// A factor of so much more or less is told again.
inline constexpr double kSlowChange = 2;

enum class SlowNews {
  slow,     // from now on
  changed,  // still, by another factor
  over,     // it is as fast as the others
  gone,     // it is not there any more, or has too few others to compare
};

// As events name it.
inline const char* word_of(SlowNews what) {
  static constexpr const char* kWords[] = {"slow", "changed", "over", "gone"};
  return kWords[static_cast<int>(what)];
}

// E, the evidence on one thing: key(), which names it; factor(), how many times as slow as the
// others it is; waited, the share of the time that these waited for it, 0 to 1; and mean(), of
// several windows. One thread.
template <typename E>
class SlowWatch {
 public:
  using Key = decltype(std::declval<const E&>().key());
  static constexpr double kWaited = 0.1;
  static constexpr size_t kWindows = 3;  // in a row

  struct News {
    SlowNews what = SlowNews::slow;
    E evidence;
  };

  static bool is_slow(const E& evidence) {
    return evidence.factor() > E::kSlow && evidence.waited > kWaited;
  }

  // The evidence of one window on each thing that can be compared.
  std::vector<News> window(const std::vector<E>& all) {
    std::vector<News> news;
    for (auto& [key, state] : states_) ++state.absent;
    for (const E& now : all) {
      State& state = states_[now.key()];
      if (std::exchange(state.absent, 0) > 1) state.slow = state.fast = 0;
      state.newest.push_back(now);
      if (state.newest.size() > kWindows) state.newest.pop_front();
      state.slow = is_slow(now) ? state.slow + 1 : 0;
      state.fast = now.factor() < E::kFast ? state.fast + 1 : 0;
      const E evidence = E::mean(state.newest);
      if (!state.named) {
        if (state.slow < kWindows) continue;
        state.named = true;
        news.push_back({SlowNews::slow, evidence});
      } else if (state.fast >= kWindows) {
        state.named = false;
        news.push_back({SlowNews::over, evidence});
      } else {
        const double change = evidence.factor() / state.told.factor();
        const bool same = change < kSlowChange && change > 1 / kSlowChange;
        if (state.slow < kWindows || same) continue;
        news.push_back({SlowNews::changed, evidence});
      }
      state.told = evidence;
    }
    std::erase_if(states_, [&](const auto& entry) {
      const State& state = entry.second;
      if (state.absent < kWindows) return false;
      if (state.named) news.push_back({SlowNews::gone, E::mean(state.newest)});
      return true;
    });
    return news;
  }

  // What the others are has changed: only what is named already, and for which `stays` is true of
  // its key, stays so.
  template <typename Stays>
  std::vector<News> keep(Stays stays) {
    std::vector<News> news;
    std::map<Key, State> kept;
    for (auto& [key, state] : states_) {
      if (!state.named) continue;
      if (!stays(key)) {
        news.push_back({SlowNews::gone, E::mean(state.newest)});
      } else {
        state.slow = state.fast = state.absent = 0;
        kept[key] = std::move(state);
      }
    }
    states_ = std::move(kept);
    return news;
  }

  // What is named, in order of the keys: means over the newest windows.
  std::vector<E> named() const {
    std::vector<E> result;
    for (const auto& [key, state] : states_) {
      if (state.named) result.push_back(E::mean(state.newest));
    }
    return result;
  }

 private:
  struct State {
    std::deque<E> newest;       // at most kWindows, at least one
    size_t slow = 0, fast = 0;  // windows in a row
    size_t absent = 0;          // windows in a row without evidence
    bool named = false;
    E told;
  };
  std::map<Key, State> states_;
};

}  // namespace adaptdl::launch
