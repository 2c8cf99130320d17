#include "core/policy/assignment_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr int kWorkOfState = 12;  // elementary steps: a lookup in memory outside the cache
constexpr size_t kFewestStates = 32;
constexpr size_t kMostNew = 1u << 20;    // states of one layer before it is trimmed
constexpr size_t kMostInAll = 1u << 24;  // states of all layers, 8 bytes each
constexpr size_t kLookEvery = 1u << 14;  // states between checks of the clock
// Changes of a price, relative to it.
constexpr std::array<double, 4> kTilts = {-0.4, -0.06, 0.06, 0.4};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct State {
  uint64_t key = 0;  // GPUs used, one field for each kind
  double cost = 0;   // sum of r
};
struct Origin {
  int32_t parent = -1;  // index into the layer before
  int32_t candidate = -1;
};
// Bounds for some layers. By kind: the fewest and the most GPUs that they can use; and for each of
// kTilts, the sum of the layers' smallest costs if that kind's price changes by the tilt (see
// least_total).
struct Range {
  explicit Range(size_t kinds) : least(kinds), most(kinds), relief(kinds * kTilts.size()) {}
  std::vector<int64_t> least, most;
  std::vector<double> relief;
};

// From keys to indices of one layer's states: open addressing, emptied by a new round number.
class KeyIndex {
 public:
  void clear(size_t expected) {
    const size_t size = std::bit_ceil(2 * expected + 16);
    if (size > slots_.size()) {
      slots_.assign(size, {});
      round_ = 0;
    }
    ++round_;
  }
  // The slot of the key; its index is -1 if it is new. Requires: fewer than half are taken.
  int32_t& at(uint64_t key) {
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.round != round_) {
        slot = {key, -1, round_};
        return slot.index;
      }
      if (slot.key == key) return slot.index;
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t index = -1;
    uint32_t round = 0;
  };
  std::vector<Slot> slots_;
  uint32_t round_ = 0;
};

}  // namespace

AssignmentSearch::AssignmentSearch(const AssignmentProblem& problem,
                                   const std::vector<double>& price)
    : problem_(problem), price_(price) {
  int bits = 0;
  for (const int64_t capacity : problem.capacity) {
    const int width = std::bit_width(static_cast<uint64_t>(capacity));
    if (bits + width > 63) possible_ = false;
    if (possible_) fields_.push_back({bits, (uint64_t{1} << width) - 1});
    bits += width;
  }
  for (const auto& options : problem.jobs) {
    std::vector<Candidate> layer;
    for (size_t o = 0; o < options.size(); ++o) {
      const AssignmentOption& option = options[o];
      if (option.gpus > problem.capacity[static_cast<size_t>(option.kind)]) continue;
      const double cost =
          option.value + price[static_cast<size_t>(option.kind)] * static_cast<double>(option.gpus);
      layer.push_back({static_cast<int>(o), option.kind, option.gpus, cost});
    }
    layer.push_back({-1, 0, 0, problem.unassigned});
    std::stable_sort(layer.begin(), layer.end(),
                     [](const Candidate& a, const Candidate& b) { return a.reduced < b.reduced; });
    const double least = layer.front().reduced;
    for (Candidate& candidate : layer) candidate.reduced -= least;
    jobs_.push_back(std::move(layer));
  }
}

double AssignmentSearch::threshold(size_t n) const {
  std::vector<double> prices;
  for (const auto& layer : jobs_) {
    for (const Candidate& candidate : layer) {
      if (candidate.reduced > 0) prices.push_back(candidate.reduced);
    }
  }
  if (prices.empty()) return 0;
  n = std::min(n, prices.size() - 1);
  std::nth_element(prices.begin(), prices.begin() + static_cast<ptrdiff_t>(n), prices.end());
  return prices[n];
}

// One run: the jobs that have a choice below the threshold, and the layers of states.
class SearchRun {
 public:
  SearchRun(const AssignmentSearch& search, double threshold, int64_t work,
            const SearchBudget& budget)
      : search_(search),
        threshold_(threshold),
        budget_(budget),
        kinds_(search.problem_.capacity.size()),
        all_(kinds_) {
    for (const double price : search.price_) {
      for (const double tilt : kTilts) tilts_.push_back(tilt * price);
    }
    choose_layers();
    size_t sum = 1, largest = 1;
    for (const Layer& layer : layers_) {
      sum += layer.candidates.size();
      largest = std::max(largest, layer.candidates.size());
    }
    width_ = static_cast<size_t>(std::max<int64_t>(work, 0)) / kWorkOfState / sum;
    width_ = std::min({width_, kMostNew / largest, kMostInAll / (layers_.size() + 1)});
  }

  SearchResult run() {
    SearchResult result;
    if (width_ < kFewestStates) return result;
    std::vector<State> states;
    if (least_total({}, all_) <= threshold_) states.emplace_back();
    bool trimmed = false;
    for (Layer& layer : layers_) {
      result.work += kWorkOfState * static_cast<int64_t>(states.size() * layer.candidates.size());
      states = expand(states, layer);
      if (stopped_) return result;
      if (states.size() > width_) {
        trim(states, layer);
        trimmed = true;
      }
    }
    result.complete = !trimmed;
    const Range nothing(kinds_);
    double least = kInfinity;
    for (size_t i = 0; i < states.size(); ++i) {
      const double total = least_total(states[i], nothing);
      if (total >= least) continue;
      least = total;
      result.choice = trace(i);
    }
    return result;
  }

 private:
  using Candidate = AssignmentSearch::Candidate;
  struct Layer {
    size_t job = 0;
    std::vector<Candidate> candidates;
    Range behind;                 // of all layers behind this one
    std::vector<Origin> origins;  // of its states
  };

  void choose_layers() {
    fixed_.assign(kinds_, 0);
    for (size_t j = 0; j < search_.jobs_.size(); ++j) {
      const auto& all = search_.jobs_[j];
      size_t count = 1;
      while (count < all.size() && all[count].reduced <= threshold_) ++count;
      choice_.push_back(all[0].option);
      if (count > 1) {
        layers_.push_back(
            {j, {all.begin(), all.begin() + static_cast<ptrdiff_t>(count)}, all_, {}});
      } else {
        fixed_[static_cast<size_t>(all[0].kind)] += all[0].gpus;
      }
    }
    // Jobs with the most expensive alternatives first, because few of these can be combined; the
    // jobs that fill the last gaps come last.
    std::stable_sort(layers_.begin(), layers_.end(), [](const Layer& a, const Layer& b) {
      return a.candidates[1].reduced > b.candidates[1].reduced;
    });
    for (size_t i = layers_.size(); i-- > 0;) {
      layers_[i].behind = all_;
      for (size_t k = 0; k < kinds_; ++k) {
        int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
        for (const Candidate& c : layers_[i].candidates) {
          const int64_t gpus = c.kind == static_cast<int>(k) ? c.gpus : 0;
          least = std::min(least, gpus);
          most = std::max(most, gpus);
        }
        all_.least[k] += least;
        all_.most[k] += most;
        for (size_t t = k * kTilts.size(); t < (k + 1) * kTilts.size(); ++t) {
          double relief = kInfinity;
          for (const Candidate& c : layers_[i].candidates) {
            const double gpus = c.kind == static_cast<int>(k) ? static_cast<double>(c.gpus) : 0;
            relief = std::min(relief, c.reduced + tilts_[t] * gpus);
          }
          all_.relief[t] += relief;
        }
      }
    }
  }

  int64_t used(uint64_t key, size_t kind) const {
    const AssignmentSearch::Field field = search_.fields_[kind];
    return static_cast<int64_t>(key >> field.shift & field.mask);
  }

  // A lower bound over L for the cost of an assignment from this state, given the range of the
  // remaining layers; infinite if none fits. Two bounds: GPUs that the rest cannot use stay idle,
  // at their price; and for any change d >= -mu of one kind's price, by weak duality,
  //   cost + sum over the rest of min(r + d gpus) - d (GPUs left).
  double least_total(const State& state, const Range& rest) const {
    double idle_cost = 0, tilted = 0;
    for (size_t k = 0; k < kinds_; ++k) {
      const int64_t left = search_.problem_.capacity[k] - fixed_[k] - used(state.key, k);
      if (left < rest.least[k]) return kInfinity;
      const int64_t idle = left - rest.most[k];
      if (idle > 0) idle_cost += search_.price_[k] * static_cast<double>(idle);
      for (size_t t = k * kTilts.size(); t < (k + 1) * kTilts.size(); ++t) {
        tilted = std::max(tilted, rest.relief[t] - tilts_[t] * static_cast<double>(left));
      }
    }
    return state.cost + std::max(idle_cost, tilted);
  }

  // All states after one more job.
  std::vector<State> expand(const std::vector<State>& from, Layer& layer) {
    std::vector<State> to;
    index_.clear(from.size() * layer.candidates.size());
    size_t until_look = 0;
    for (size_t s = 0; s < from.size(); ++s) {
      if (until_look < layer.candidates.size()) {
        until_look = kLookEvery;
        stopped_ = budget_.deadline && Monotonic::now() >= *budget_.deadline;
        if (stopped_) break;
      }
      until_look -= layer.candidates.size();
      for (size_t c = 0; c < layer.candidates.size(); ++c) {
        const Candidate& candidate = layer.candidates[c];
        State next = {from[s].key, from[s].cost + candidate.reduced};
        if (next.cost > threshold_) break;  // they are sorted
        if (!add(candidate, next) || least_total(next, layer.behind) > threshold_) continue;
        const Origin origin = {static_cast<int32_t>(s), static_cast<int32_t>(c)};
        int32_t& index = index_.at(next.key);
        if (index < 0) {
          index = static_cast<int32_t>(to.size());
          to.push_back(next);
          layer.origins.push_back(origin);
        } else if (next.cost < to[static_cast<size_t>(index)].cost) {
          to[static_cast<size_t>(index)] = next;
          layer.origins[static_cast<size_t>(index)] = origin;
        }
      }
    }
    return to;
  }

  bool add(const Candidate& candidate, State& state) const {
    if (candidate.gpus == 0) return true;
    const auto kind = static_cast<size_t>(candidate.kind);
    const int64_t sum = fixed_[kind] + used(state.key, kind) + candidate.gpus;
    if (sum > search_.problem_.capacity[kind]) return false;
    state.key += static_cast<uint64_t>(candidate.gpus) << search_.fields_[kind].shift;
    return true;
  }

  // Keeps the `width_` most promising states.
  void trim(std::vector<State>& states, Layer& layer) const {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < states.size(); ++i) {
      order.emplace_back(least_total(states[i], layer.behind), i);
    }
    std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(width_), order.end());
    order.resize(width_);
    std::vector<State> kept;
    std::vector<Origin> origins;
    for (const auto& [total, i] : order) {
      kept.push_back(states[i]);
      origins.push_back(layer.origins[i]);
    }
    states = std::move(kept);
    layer.origins = std::move(origins);
  }

  std::vector<int> trace(size_t state) const {
    std::vector<int> choice = choice_;
    for (size_t i = layers_.size(); i-- > 0;) {
      const Origin origin = layers_[i].origins[state];
      choice[layers_[i].job] = layers_[i].candidates[static_cast<size_t>(origin.candidate)].option;
      state = static_cast<size_t>(origin.parent);
    }
    return choice;
  }

  const AssignmentSearch& search_;
  const double threshold_;
  const SearchBudget& budget_;
  const size_t kinds_;
  size_t width_ = 0;  // most states that a layer keeps
  std::vector<Layer> layers_;
  Range all_;                   // of all layers
  std::vector<double> tilts_;   // changes of prices, kTilts for each kind
  std::vector<int64_t> fixed_;  // GPUs of the jobs without a choice
  std::vector<int> choice_;     // theirs
  KeyIndex index_;
  bool stopped_ = false;
};

SearchResult AssignmentSearch::run(double threshold, int64_t work,
                                   const SearchBudget& budget) const {
  ADAPTDL_CHECK(possible_);
  return SearchRun(*this, threshold, work, budget).run();
}

}  // namespace adaptdl
