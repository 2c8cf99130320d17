#include "core/policy/assignment_dual.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <limits>

#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

AssignmentProblem random_problem(Draw& draw, int kinds, int most_jobs) {
  AssignmentProblem problem;
  problem.unassigned = draw.uniform(0, 2);
  for (int k = 0; k < kinds; ++k) problem.capacity.push_back(draw.integer(0, 3 * most_jobs));
  const bool coarse = draw.chance(0.3);  // with many ties
  for (int j = draw.integer(1, most_jobs); j > 0; --j) {
    std::vector<AssignmentOption> options;
    for (int o = draw.integer(0, 9); o > 0; --o) {
      const double value = coarse ? draw.integer(-4, 8) / 4.0 : draw.uniform(-2, 2);
      options.push_back({draw.integer(0, kinds - 1), draw.integer(0, 16), value});
    }
    problem.jobs.push_back(options);
  }
  return problem;
}

// The largest bound over one price, by trying every price at which any job's choice may change.
double largest_bound(const AssignmentProblem& problem, const AssignmentDual& dual) {
  double largest = dual.evaluate({0}).bound;
  const auto try_price = [&](double value, int64_t gpus, const AssignmentOption& other) {
    const double price =
        (value - other.value) / static_cast<double>(std::max<int64_t>(other.gpus - gpus, 1));
    if (price > 0) largest = std::max(largest, dual.evaluate({price}).bound);
  };
  for (const auto& options : problem.jobs) {
    for (const AssignmentOption& a : options) {
      try_price(problem.unassigned, 0, a);
      for (const AssignmentOption& b : options) try_price(a.value, a.gpus, b);
    }
  }
  return largest;
}

TEST_CASE("one kind: the price clears, and no price has a larger bound") {
  Draw draw(11);
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_problem(draw, 1, draw.integer(1, 12));
    const AssignmentDual dual(problem);
    const AssignmentDual::Point point = dual.maximise({});
    INFO("round " << round);
    CHECK(dual.fits(point.used));
    CHECK(point.bound == doctest::Approx(largest_bound(problem, dual)).epsilon(1e-12));
    // A little cheaper, the jobs would want more than there is.
    if (point.price[0] > 1e-9) {
      CHECK_FALSE(dual.fits(dual.evaluate({point.price[0] * (1 - 1e-12)}).used));
    }
  }
}

// The largest bound over two prices: it is concave, so two nested searches find it.
double largest_of_two(const AssignmentDual& dual) {
  const auto top = [](const auto& bound) {
    double low = 0, high = 8;
    for (int i = 0; i < 60; ++i) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      (bound(a) < bound(b) ? low : high) = bound(a) < bound(b) ? a : b;
    }
    return std::max(bound(low), bound(0));
  };
  return top([&](double one) {
    return top([&](double other) { return dual.evaluate({one, other}).bound; });
  });
}

TEST_CASE("two kinds: the bound is close to the largest") {
  Draw draw(12);
  for (int round = 0; round < 12; ++round) {
    const AssignmentProblem problem = random_problem(draw, 2, 12);
    const AssignmentDual dual(problem);
    const double bound = dual.maximise({}).bound, largest = largest_of_two(dual);
    INFO("round " << round);
    CHECK(bound >= largest - 0.01 * (1 + std::abs(largest)));
    CHECK(bound <= largest + 1e-6);
  }
}

TEST_CASE("choices are made to fit, whatever the prices") {
  Draw draw(13);
  for (int round = 0; round < 400; ++round) {
    const int kinds = draw.integer(1, 3);
    const AssignmentProblem problem = random_problem(draw, kinds, draw.integer(1, 30));
    const AssignmentDual dual(problem);
    std::vector<double> price;
    for (int k = 0; k < kinds; ++k) price.push_back(draw.chance(0.5) ? 0 : draw.uniform(0, 1));
    AssignmentDual::Point point = dual.evaluate(price);
    dual.make_fit(point);
    INFO("round " << round);
    CHECK(dual.fits(point.used));
    std::vector<int64_t> used(problem.capacity.size());
    for (size_t j = 0; j < point.choice.size(); ++j) {
      if (point.choice[j] < 0) continue;
      const auto& option = problem.jobs[j].at(static_cast<size_t>(point.choice[j]));
      used[static_cast<size_t>(option.kind)] += option.gpus;
    }
    CHECK(used == point.used);
    CHECK(assignment_objective(problem, point.choice) >= point.bound - 1e-9);
  }
}

TEST_CASE("jobs for which kinds differ alike are shared out at no cost") {
  // At the best prices all jobs like both kinds as much, so all choose the same.
  AssignmentProblem problem;
  problem.capacity = {40, 60};
  problem.unassigned = 1;
  problem.jobs.assign(100, {{0, 1, -2}, {1, 1, -1}});
  const AssignmentDual dual(problem);
  AssignmentDual::Point point = dual.maximise({});
  dual.make_fit(point);
  CHECK(assignment_objective(problem, point.choice) == -140);
  CHECK(point.bound == doctest::Approx(-140).epsilon(0.001));
}

}  // namespace
}  // namespace adaptdl
