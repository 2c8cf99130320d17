#include "core/policy/assignment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/policy/assignment_dual.h"
#include "core/policy/assignment_search.h"

namespace adaptdl {
namespace {

bool expired(const SearchBudget& budget) {
  return budget.deadline && Monotonic::now() >= *budget.deadline;
}

// Gives free GPUs to the jobs that gain most from each GPU, until no job gains.
void fill(const AssignmentProblem& problem, std::vector<int64_t> used, std::vector<int>& choice,
          const SearchBudget& budget) {
  struct Step {
    double rate = 0;  // value gained per additional GPU; infinite if it takes no more
    size_t job = 0;
    int option = 0;
  };
  // One pass even after the deadline, or few GPUs might be allocated.
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<Step> steps;
    const auto value_of = [&](size_t j) {
      return choice[j] < 0 ? problem.unassigned
                           : problem.jobs[j][static_cast<size_t>(choice[j])].value;
    };
    const auto change = [&](size_t j, const AssignmentOption& option) {
      int64_t more = option.gpus;
      if (choice[j] >= 0) {
        const auto& old = problem.jobs[j][static_cast<size_t>(choice[j])];
        if (old.kind == option.kind) more -= old.gpus;
      }
      return more;
    };
    const auto fits = [&](size_t j, const AssignmentOption& option) {
      const auto kind = static_cast<size_t>(option.kind);
      return used[kind] + change(j, option) <= problem.capacity[kind];
    };
    for (size_t j = 0; j < choice.size(); ++j) {
      Step best;
      for (size_t o = 0; o < problem.jobs[j].size(); ++o) {
        const AssignmentOption& option = problem.jobs[j][o];
        const double gain = value_of(j) - option.value;
        if (gain <= 0 || !fits(j, option)) continue;
        const int64_t more = change(j, option);
        const double rate = more > 0 ? gain / static_cast<double>(more) : HUGE_VAL;
        if (rate > best.rate) best = {rate, j, static_cast<int>(o)};
      }
      if (best.rate > 0) steps.push_back(best);
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.rate > b.rate; });
    for (const Step& step : steps) {
      const AssignmentOption& option = problem.jobs[step.job][static_cast<size_t>(step.option)];
      if (!fits(step.job, option)) continue;
      if (choice[step.job] >= 0) {
        const auto& old = problem.jobs[step.job][static_cast<size_t>(choice[step.job])];
        used[static_cast<size_t>(old.kind)] -= old.gpus;
      }
      used[static_cast<size_t>(option.kind)] += option.gpus;
      choice[step.job] = step.option;
      changed = !expired(budget);
    }
  }
}

// Searches with growing thresholds until one holds the optimum or the budget is spent.
void search(const AssignmentProblem& problem, const AssignmentDual::Point& dual, Assignment& best,
            const SearchBudget& budget) {
  constexpr size_t kFirstDeviations = 16;
  constexpr double kClose = 1e-4;
  const AssignmentSearch search(problem, dual.price);
  if (!search.possible()) return;
  const double rounding = 1e-12 * (1 + std::abs(best.objective));
  double threshold = std::max(search.threshold(kFirstDeviations), rounding);
  for (int64_t work = budget.work; work > 0 && !expired(budget);) {
    const double gap = best.objective - dual.bound;
    const double before = best.objective;
    const bool last = threshold >= gap;
    // Half of the remaining work: if that is not enough, try another threshold.
    const SearchResult found = search.run(std::min(threshold, gap), work / 2, budget);
    work -= std::max(found.work, budget.work / 50);
    if (found.choice) {
      const double objective = assignment_objective(problem, *found.choice);
      if (objective < best.objective) {
        best.objective = objective;
        best.choice = *found.choice;
      }
    }
    if (found.complete && (found.choice || last)) {
      best.optimal = true;
      best.bound = best.objective;
      return;
    }
    // A better answer reduces the gap, and so the search; continue unless little is left to gain.
    // Without a better answer, the states would exceed the budget again.
    const bool improved = best.objective < before;
    const bool close = best.objective - dual.bound <= kClose * std::abs(best.objective);
    if (!found.complete && (close || (!improved && (last || found.choice)))) return;
    if (!found.choice) threshold *= 2;
  }
}

}  // namespace

double assignment_objective(const AssignmentProblem& problem, const std::vector<int>& choice) {
  double sum = 0;
  for (size_t j = 0; j < choice.size(); ++j) {
    sum +=
        choice[j] < 0 ? problem.unassigned : problem.jobs[j][static_cast<size_t>(choice[j])].value;
  }
  return sum;
}

Assignment solve_assignment(const AssignmentProblem& problem, const SearchBudget& budget) {
  for (const auto& options : problem.jobs) {
    for (const AssignmentOption& option : options) {
      ADAPTDL_CHECK(option.kind >= 0 &&
                    static_cast<size_t>(option.kind) < problem.capacity.size() &&
                    option.gpus >= 0 && std::isfinite(option.value));
    }
  }
  Assignment best;
  if (problem.capacity.empty()) {
    best.choice.assign(problem.jobs.size(), -1);
    best.objective = best.bound = assignment_objective(problem, best.choice);
    best.optimal = true;
    return best;
  }
  const AssignmentDual dual(problem);
  const AssignmentDual::Point prices = dual.maximise(budget);
  AssignmentDual::Point first = prices;
  dual.make_fit(first);
  best.choice = std::move(first.choice);
  fill(problem, std::move(first.used), best.choice, budget);
  best.objective = assignment_objective(problem, best.choice);
  best.bound = std::min(prices.bound, best.objective);
  search(problem, prices, best, budget);
  best.cut_short = !best.optimal && expired(budget);
  return best;
}

}  // namespace adaptdl
