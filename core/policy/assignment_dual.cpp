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

// The job's cheapest choice at these prices, without the options of one kind.
AssignmentDual::Choice AssignmentDual::cheapest(size_t job, const std::vector<double>& price,
                                                size_t without_kind) const {
  Choice best{.cost = problem_.unassigned};
  for (size_t k = 0; k < kinds_; ++k) {
    const Hull hull = hulls_[job * kinds_ + k];
    if (hull.first == hull.last || k == without_kind) continue;
    const double mu = price[k];
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
    if (cost < best.cost) best = {low, k, cost};
  }
  return best;
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
    const Choice best = cheapest(j, point.price, kinds_);
    point.bound += best.cost;
    if (best.point < 0) continue;
    point.choice[j] = option_[best.point];
    point.used[best.kind] += gpus_[best.point];
  }
  return point;
}

// The lowest price of a kind at which its use fits, the others' being given. The use falls in steps
// as the price rises: a job goes to the hull's point before, or leaves the kind for what costs it
// less.
double AssignmentDual::clearing_price(const std::vector<double>& price, size_t kind) const {
  struct Step {
    double price;
    int64_t gpus;  // by which the use falls
  };
  std::vector<Step> steps;
  int64_t excess = -problem_.capacity[kind];
  for (size_t j = 0; j < problem_.jobs.size(); ++j) {
    const Hull hull = hulls_[j * kinds_ + kind];
    if (hull.first == hull.last) continue;
    const double other = cheapest(j, price, kind).cost;
    int at = hull.last - 1;
    if (value_[at] >= other) continue;
    excess += gpus_[at];
    for (; gpus_[at] > 0; --at) {
      const double leaves = (other - value_[at]) / static_cast<double>(gpus_[at]);
      const int64_t fewer = at > hull.first ? gpus_[at] - gpus_[at - 1] : 0;
      const double shrinks =
          fewer > 0 ? (value_[at - 1] - value_[at]) / static_cast<double>(fewer) : leaves;
      steps.push_back({std::min(leaves, shrinks), leaves <= shrinks ? gpus_[at] : fewer});
      if (leaves <= shrinks) break;
    }
  }
  if (excess <= 0) return 0;
  // The first step, by price, with which the steps' sum reaches the excess.
  auto first = steps.begin(), last = steps.end();
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last,
                     [](const Step& a, const Step& b) { return a.price < b.price; });
    int64_t below = 0;
    for (auto step = first; step != middle; ++step) below += step->gpus;
    if (below >= excess) {
      last = middle;
    } else {
      excess -= below;
      first = middle;
    }
  }
  // Rounded up, so that jobs for which both cost the same take the smaller.
  return std::nextafter(first->price * (1 + 1e-15), HUGE_VAL);
}

// Sets one price to the value with the largest bound.
void AssignmentDual::improve_price(Point& point, size_t kind) const {
  std::vector<double> price = point.price;
  price[kind] = clearing_price(price, kind);
  Point at = evaluate(std::move(price));
  const bool fits = at.used[kind] <= problem_.capacity[kind];
  if (at.bound > point.bound || (fits && at.bound == point.bound)) point = std::move(at);
}

void AssignmentDual::ascend(Point& best, double length, const SearchBudget& budget) const {
  constexpr int kPatience = 8, kFewest = 60, kMost = 600;
  const auto step_work = static_cast<int64_t>(1 + problem_.jobs.size() * kinds_);
  const int64_t steps = std::clamp<int64_t>(budget.work / 5 / step_work, kFewest, kMost);
  Point here = best;
  length = std::max(length, 1e-9 * (1 + std::abs(best.bound)));
  int stalled = 0;
  for (int64_t step = 0; step < steps && !out_of_time(budget); ++step) {
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
  const auto sweep = [&] {
    for (size_t k = 0; k < kinds_ && !out_of_time(budget); ++k) improve_price(best, k);
  };
  sweep();
  if (kinds_ == 1) return best;
  for (int again = 0; again < 2; ++again) sweep();
  // Sweeps may end below the top, where only several prices together improve the bound. A choice
  // that fits tells how far it is at most.
  Point fitting = best;
  make_fit(fitting);
  const double gap = assignment_objective(problem_, fitting.choice) - best.bound;
  ascend(best, gap / 3, budget);
  sweep();
  return best;
}

// The change of a job's choice that costs least for each GPU that it frees of the choice's kind, of
// those for which there is room.
AssignmentDual::Change AssignmentDual::cheapest_change(const Point& point, size_t job) const {
  const AssignmentOption& now = problem_.jobs[job][static_cast<size_t>(point.choice[job])];
  const auto from = static_cast<size_t>(now.kind);
  const auto gpus = static_cast<double>(now.gpus);
  const double cost = now.value + point.price[from] * gpus;
  Change best{.rate = (problem_.unassigned - cost) / gpus, .job = job};
  for (size_t k = 0; k < kinds_; ++k) {
    const Hull hull = hulls_[job * kinds_ + k];
    for (int at = hull.first; at < hull.last; ++at) {
      const int64_t freed = now.gpus - (k == from ? gpus_[at] : 0);
      if (freed <= 0 || (k != from && point.used[k] + gpus_[at] > problem_.capacity[k])) break;
      const double there = value_[at] + point.price[k] * static_cast<double>(gpus_[at]);
      const double rate = (there - cost) / static_cast<double>(freed);
      if (rate < best.rate) best = {rate, job, at, k};
    }
  }
  return best;
}

void AssignmentDual::make_fit(Point& point) const {
  for (size_t k = 0; k < kinds_; ++k) {
    if (point.used[k] > problem_.capacity[k]) make_fit(point, k);
  }
}

void AssignmentDual::make_fit(Point& point, size_t kind) const {
  const auto later = [](const Change& a, const Change& b) {
    return std::pair(a.rate, a.job) > std::pair(b.rate, b.job);
  };
  std::vector<Change> queue;
  const auto enqueue = [&](size_t job) {
    if (point.choice[job] < 0) return false;
    const AssignmentOption& now = problem_.jobs[job][static_cast<size_t>(point.choice[job])];
    if (static_cast<size_t>(now.kind) != kind || now.gpus == 0) return false;
    queue.push_back(cheapest_change(point, job));
    return true;
  };
  for (size_t j = 0; j < problem_.jobs.size(); ++j) enqueue(j);
  std::make_heap(queue.begin(), queue.end(), later);
  // Ends: each change that has room takes GPUs of this kind from a job, and any job may have none.
  while (point.used[kind] > problem_.capacity[kind]) {
    std::pop_heap(queue.begin(), queue.end(), later);
    const Change change = queue.back();
    queue.pop_back();
    const int64_t gpus = change.point < 0 ? 0 : gpus_[change.point];
    // Jobs that changed before may have taken the room on another kind.
    const bool room = change.point < 0 || change.kind == kind ||
                      point.used[change.kind] + gpus <= problem_.capacity[change.kind];
    if (room) {
      int& choice = point.choice[change.job];
      point.used[kind] -= problem_.jobs[change.job][static_cast<size_t>(choice)].gpus;
      point.used[change.kind] += gpus;
      choice = change.point < 0 ? -1 : option_[change.point];
    }
    if (enqueue(change.job)) std::push_heap(queue.begin(), queue.end(), later);
  }
}

}  // namespace adaptdl
