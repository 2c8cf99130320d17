#include "core/policy/pollux/pollux_dual.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace adaptdl {
namespace {

double net_worth(const PolluxChoice& choice, const PolluxPrices& prices) {
  const auto kind = static_cast<size_t>(choice.kind);
  return choice.value - prices.gpu[kind] * choice.gpus - prices.node[kind] * choice.spanned;
}

struct Demand {
  std::vector<double> gpus, nodes;  // by kind
};

Demand demand_at(const PolluxProblem& problem, const PolluxPrices& prices) {
  Demand demand{std::vector<double>(prices.gpu.size()), std::vector<double>(prices.gpu.size())};
  for (size_t j = 0; j < problem.choices.size(); ++j) {
    if (!problem.movable[j]) continue;
    const auto& choice =
        problem.choices[j][static_cast<size_t>(best_choice(problem.choices[j], prices))];
    demand.gpus[static_cast<size_t>(choice.kind)] += choice.gpus;
    demand.nodes[static_cast<size_t>(choice.kind)] += choice.spanned;
  }
  return demand;
}

double bound_at(const PolluxProblem& problem, const PolluxPrices& prices) {
  double bound = 0;
  for (size_t k = 0; k < problem.gpus.size(); ++k) {
    bound += prices.gpu[k] * problem.gpus[k];
    if (prices.node[k] > 0) bound += prices.node[k] * problem.nodes[k];
  }
  for (size_t j = 0; j < problem.choices.size(); ++j) {
    if (!problem.movable[j]) continue;
    const auto& list = problem.choices[j];
    bound += net_worth(list[static_cast<size_t>(best_choice(list, prices))], prices);
  }
  return bound;
}

// The lowest price without excess demand, by bisection of its logarithm over nine decades.
template <typename Excess>
double bisect(double high, int steps, const Excess& excess) {
  if (!excess(0.0)) return 0;
  double low = high * 1e-9;
  for (int i = 0; i < steps; ++i) {
    const double middle = std::sqrt(low * high);
    (excess(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace

int best_choice(const std::vector<PolluxChoice>& choices, const PolluxPrices& prices) {
  size_t best = 0;
  double best_worth = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < choices.size(); ++i) {
    const double worth = net_worth(choices[i], prices);
    if (worth > best_worth) {
      best = i;
      best_worth = worth;
    }
  }
  return static_cast<int>(best);
}

PolluxDual solve_dual(const PolluxProblem& problem) {
  const auto kinds = static_cast<size_t>(problem.objective.kinds());
  const std::vector<double> free_of_charge(std::max<size_t>(kinds, 1));  // waiting has kind 0
  PolluxDual dual{{free_of_charge, free_of_charge}, 0};
  PolluxPrices& prices = dual.prices;
  double highest = 0;  // at higher prices no job takes a GPU
  for (size_t j = 0; j < problem.choices.size(); ++j) {
    for (const PolluxChoice& choice : problem.choices[j]) {
      if (choice.gpus <= 0) continue;
      highest = std::max(highest, (choice.value - problem.idle_value[j]) / choice.gpus);
    }
  }
  highest *= 2;
  // The price of one kind changes the demand for the others. Three rounds are enough for a bound
  // and a start.
  const int rounds = kinds > 1 ? 3 : 1;
  for (int round = 0; round < rounds && highest > 0; ++round) {
    for (size_t k = 0; k < kinds; ++k) {
      const auto price_gpus = [&](int steps) {
        prices.gpu[k] = bisect(highest, steps, [&](double price) {
          prices.gpu[k] = price;
          return demand_at(problem, prices).gpus[k] > problem.gpus[k];
        });
      };
      prices.node[k] = 0;
      price_gpus(36);
      if (demand_at(problem, prices).nodes[k] <= problem.nodes[k]) continue;
      prices.node[k] = bisect(highest * 64, 14, [&](double price) {
        prices.node[k] = price;
        price_gpus(18);
        return demand_at(problem, prices).nodes[k] > problem.nodes[k];
      });
      price_gpus(36);
    }
  }
  dual.bound = bound_at(problem, prices);
  return dual;
}

namespace {

struct Item {
  int choice, gpus, nodes;
  double value;
};

// The choices that a better answer could contain, without those that another choice dominates.
std::vector<Item> worth_trying(const std::vector<PolluxChoice>& choices, const PolluxPrices& prices,
                               double slack, bool count_nodes) {
  const double best = net_worth(choices[static_cast<size_t>(best_choice(choices, prices))], prices);
  std::vector<Item> items;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (net_worth(choices[i], prices) < best - slack) continue;
    items.push_back({static_cast<int>(i), static_cast<int>(std::llround(choices[i].gpus)),
                     count_nodes ? choices[i].spanned : 0, choices[i].value});
  }
  std::vector<Item> kept;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool beaten = std::any_of(items.begin(), items.end(), [&](const Item& other) {
      const Item& it = items[i];
      if (other.gpus > it.gpus || other.nodes > it.nodes || other.value < it.value) return false;
      const bool equal =
          other.gpus == it.gpus && other.nodes == it.nodes && other.value == it.value;
      return !equal || other.choice < it.choice;
    });
    if (!beaten) kept.push_back(items[i]);
  }
  return kept;
}

}  // namespace

std::vector<int> best_counts(const PolluxProblem& problem, const PolluxDual& dual, double slack,
                             int64_t& work) {
  if (problem.objective.kinds() != 1 || problem.gpus[0] > 1e5) return {};
  const bool count_nodes = problem.nodes[0] < HUGE_VAL;
  const auto gpus = static_cast<int64_t>(problem.gpus[0]);
  const auto nodes = count_nodes ? static_cast<int64_t>(problem.nodes[0]) : 0;
  const int64_t states = (gpus + 1) * (nodes + 1);

  slack += 1e-9 * std::abs(dual.bound);  // rounding must not exclude the known answer
  std::vector<size_t> jobs;
  std::vector<std::vector<Item>> items;
  int64_t steps = 0;
  for (size_t j = 0; j < problem.choices.size(); ++j) {
    if (!problem.movable[j]) continue;
    jobs.push_back(j);
    items.push_back(worth_trying(problem.choices[j], dual.prices, slack, count_nodes));
    steps += states * static_cast<int64_t>(items.back().size());
  }
  if (steps > work || states * static_cast<int64_t>(jobs.size()) > (64 << 20)) return {};
  work -= steps;

  constexpr double kNever = -std::numeric_limits<double>::infinity();
  std::vector<double> best(static_cast<size_t>(states), kNever), next(best);
  std::vector<std::vector<int16_t>> taken(jobs.size());
  best[0] = 0;
  int64_t most_gpus = 0, most_nodes = 0;  // reached so far
  for (size_t i = 0; i < jobs.size(); ++i) {
    std::fill(next.begin(), next.end(), kNever);
    taken[i].assign(static_cast<size_t>(states), -1);
    int64_t wide_gpus = 0, wide_nodes = 0;
    for (size_t c = 0; c < items[i].size(); ++c) {
      const Item& item = items[i][c];
      wide_gpus = std::max<int64_t>(wide_gpus, item.gpus);
      wide_nodes = std::max<int64_t>(wide_nodes, item.nodes);
      for (int64_t n = 0; n <= std::min(most_nodes, nodes - item.nodes); ++n) {
        const int64_t from = n * (gpus + 1), to = (n + item.nodes) * (gpus + 1) + item.gpus;
        for (int64_t g = 0; g <= std::min(most_gpus, gpus - item.gpus); ++g) {
          const double value = best[static_cast<size_t>(from + g)] + item.value;
          if (value <= next[static_cast<size_t>(to + g)]) continue;
          next[static_cast<size_t>(to + g)] = value;
          taken[i][static_cast<size_t>(to + g)] = static_cast<int16_t>(c);
        }
      }
    }
    most_gpus = std::min(gpus, most_gpus + wide_gpus);
    most_nodes = std::min(nodes, most_nodes + wide_nodes);
    best.swap(next);
  }
  auto at = std::max_element(best.begin(), best.end()) - best.begin();
  if (best[static_cast<size_t>(at)] == kNever) return {};
  std::vector<int> counts(problem.choices.size(), 0);
  for (size_t i = jobs.size(); i-- > 0;) {
    const Item& item = items[i][static_cast<size_t>(taken[i][static_cast<size_t>(at)])];
    counts[jobs[i]] = item.choice;
    at -= item.nodes * (gpus + 1) + item.gpus;
  }
  return counts;
}

}  // namespace adaptdl
