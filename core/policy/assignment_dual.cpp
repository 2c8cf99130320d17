#include "core/policy/assignment_dual.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {
namespace {

bool out_of_time(const SearchBudget& budget) {
  return budget.deadline && Monotonic::now() >= *budget.deadline;
}

}  // namespace

AssignmentDual::AssignmentDual(const AssignmentProblem& problem)
    : problem_(problem), kinds_(problem.capacity.size()) {
  for (const auto& options : problem.jobs) {
    for (size_t k = 0; k < kinds_; ++k) add_hull(options, static_cast<int>(k));
  }
}

void AssignmentDual::add_hull(const std::vector<AssignmentOption>& options, int kind) {
  std::vector<int> order;
  for (size_t o = 0; o < options.size(); ++o) {
    if (options[o].kind == kind && options[o].gpus <= problem_.capacity[kind]) {
      order.push_back(static_cast<int>(o));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(options[a].gpus, options[a].value) <
           std::pair(options[b].gpus, options[b].value);
  });
  const auto first = static_cast<int>(value_.size());
  for (const int o : order) {
    const double value = options[o].value;
    const auto gpus = options[o].gpus;
    const auto last = [&](int back) { return value_.size() - static_cast<size_t>(back); };
    if (static_cast<int>(value_.size()) > first && value >= value_.back()) continue;
    // The last point stays only if the slope before it is steeper than the slope after it.
    while (static_cast<int>(value_.size()) >= first + 2) {
      const double before =
          (value_[last(1)] - value_[last(2)]) * static_cast<double>(gpus - gpus_[last(1)]);
      const double after =
          (value - value_[last(1)]) * static_cast<double>(gpus_[last(1)] - gpus_[last(2)]);
      if (before < after) break;
      value_.pop_back();
      gpus_.pop_back();
      option_.pop_back();
    }
    value_.push_back(value);
    gpus_.push_back(gpus);
    option_.push_back(o);
  }
  hulls_.push_back({first, static_cast<int>(value_.size())});
}

bool AssignmentDual::fits(const std::vector<int64_t>& used) const {
  for (size_t k = 0; k < kinds_; ++k) {
    if (used[k] > problem_.capacity[k]) return false;
  }
  return true;
}

AssignmentDual::Point AssignmentDual::evaluate(std::vector<double> price) const {
  Point point;
  point.price = std::move(price);
  point.choice.assign(problem_.jobs.size(), -1);
  point.used.assign(kinds_, 0);
  for (size_t k = 0; k < kinds_; ++k) {
    point.bound -= point.price[k] * static_cast<double>(problem_.capacity[k]);
  }
  for (size_t j = 0; j < problem_.jobs.size(); ++j) {
    double least = problem_.unassigned;
    size_t kind = 0;
    int64_t used = 0;
    for (size_t k = 0; k < kinds_; ++k) {
      const Hull hull = hulls_[j * kinds_ + k];
      if (hull.first == hull.last) continue;
      const double mu = point.price[k];
      // Costs fall until the first point after which another GPU saves no more than its price.
      int low = hull.first, high = hull.last - 1;
      while (low < high) {
        const int middle = (low + high) / 2;
        const double saving = value_[middle] - value_[middle + 1];
        if (saving <= mu * static_cast<double>(gpus_[middle + 1] - gpus_[middle])) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      const double cost = value_[low] + mu * static_cast<double>(gpus_[low]);
      if (cost < least) {
        least = cost;
        kind = k;
        used = gpus_[low];
        point.choice[j] = option_[low];
      }
    }
    point.bound += least;
    if (point.choice[j] >= 0) point.used[kind] += used;
  }
  return point;
}

// Sets one price to the value with the largest bound. The use of a kind falls as its price rises.
void AssignmentDual::bisect(Point& point, int kind, const SearchBudget& budget) const {
  const auto fits_at = [&](double mu) {
    std::vector<double> price = point.price;
    price[kind] = mu;
    Point at = evaluate(std::move(price));
    const bool fits = at.used[kind] <= problem_.capacity[kind];
    if (at.bound > point.bound || (fits && at.bound == point.bound)) point = std::move(at);
    return fits;
  };
  if (fits_at(0)) return;
  double high = std::max(point.price[kind], 1e-6), low = 0;
  while (!fits_at(high)) {
    low = high;
    high *= 2;
    ADAPTDL_CHECK(std::isfinite(high));
  }
  for (int i = 0; i < 50 && !out_of_time(budget); ++i) {
    const double middle = (low + high) / 2;
    (fits_at(middle) ? high : low) = middle;
  }
}

void AssignmentDual::ascend(Point& best, const SearchBudget& budget) const {
  constexpr int kSteps = 600, kPatience = 8;
  Point here = best;
  double length = 0.02 * std::max(std::abs(best.bound), 1e-9);  // expected gain of a step
  int stalled = 0;
  for (int step = 0; step < kSteps && !out_of_time(budget); ++step) {
    std::vector<double> slope(kinds_);
    double square = 0;
    for (size_t k = 0; k < kinds_; ++k) {
      slope[k] = static_cast<double>(here.used[k] - problem_.capacity[k]);
      if (slope[k] < 0 && here.price[k] <= 0) slope[k] = 0;
      square += slope[k] * slope[k];
    }
    if (square == 0) break;
    std::vector<double> price = here.price;
    for (size_t k = 0; k < kinds_; ++k) {
      price[k] = std::max(0.0, price[k] + length * slope[k] / square);
    }
    here = evaluate(std::move(price));
    if (here.bound > best.bound) {
      if (here.bound - best.bound < 0.1 * length) ++stalled;
      best = here;
    } else if (++stalled >= kPatience) {
      stalled = 0;
      length /= 2;
      here = best;
    }
  }
}

AssignmentDual::Point AssignmentDual::maximise(const SearchBudget& budget) const {
  Point best = evaluate(std::vector<double>(kinds_));
  if (fits(best.used)) return best;
  const int sweeps = kinds_ > 1 ? 3 : 1;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (size_t k = 0; k < kinds_; ++k) bisect(best, static_cast<int>(k), budget);
  }
  if (kinds_ > 1) {
    ascend(best, budget);
    for (size_t k = 0; k < kinds_; ++k) bisect(best, static_cast<int>(k), budget);
  }
  return best;
}

}  // namespace adaptdl
