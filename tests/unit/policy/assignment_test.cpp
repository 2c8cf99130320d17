#include "core/policy/assignment.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <time.h>

#include "core/base/clock.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

bool feasible(const AssignmentProblem& problem, const std::vector<int>& choice) {
  std::vector<int64_t> used(problem.capacity.size());
  for (size_t j = 0; j < choice.size(); ++j) {
    if (choice[j] < 0) continue;
    const auto& option = problem.jobs[j].at(static_cast<size_t>(choice[j]));
    used[static_cast<size_t>(option.kind)] += option.gpus;
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k] > problem.capacity[k]) return false;
  }
  return true;
}

double least_by_trying_all(const AssignmentProblem& problem, const std::vector<int64_t>& left,
                           size_t j) {
  if (j == problem.jobs.size()) return 0;
  double least = problem.unassigned + least_by_trying_all(problem, left, j + 1);
  for (const auto& option : problem.jobs[j]) {
    auto rest = left;
    int64_t& gpus = rest[static_cast<size_t>(option.kind)];
    gpus -= option.gpus;
    if (gpus < 0) continue;
    least = std::min(least, option.value + least_by_trying_all(problem, rest, j + 1));
  }
  return least;
}

// Options as Sia's: values fall with the GPUs, the less the more there are.
AssignmentProblem sia_like(uint64_t seed, int jobs, const std::vector<int64_t>& capacity,
                           int most) {
  Draw draw(seed);
  AssignmentProblem problem;
  problem.unassigned = 1.1;
  problem.capacity = capacity;
  for (int j = 0; j < jobs; ++j) {
    std::vector<AssignmentOption> options;
    const double factor = draw.chance(0.5) ? 1 : draw.uniform(0.3, 1);
    const double exponent = draw.uniform(0.3, 0.98);
    const int limit = 1 << draw.integer(0, static_cast<int>(std::log2(most)));
    for (size_t k = 0; k < capacity.size(); ++k) {
      const double speed = draw.uniform(1, 4);
      for (int gpus = 1; gpus <= limit; gpus += gpus < 8 ? gpus : 8) {
        options.push_back(
            {static_cast<int>(k), gpus, std::pow(factor * speed * std::pow(gpus, exponent), -0.5)});
      }
    }
    problem.jobs.push_back(std::move(options));
  }
  return problem;
}

TEST_CASE("small problems are solved to the optimum") {
  Draw draw(5);
  for (int round = 0; round < 400; ++round) {
    AssignmentProblem problem;
    problem.unassigned = draw.uniform(0, 2);
    for (int k = draw.integer(1, 3); k > 0; --k) problem.capacity.push_back(draw.integer(0, 9));
    const int kinds = static_cast<int>(problem.capacity.size());
    for (int j = draw.integer(0, 5); j > 0; --j) {
      std::vector<AssignmentOption> options;
      for (int o = draw.integer(0, 5); o > 0; --o) {
        // Coarse values make many ties; zero GPUs and more than there are must do no harm.
        const double value = draw.chance(0.5) ? draw.integer(-2, 8) / 4.0 : draw.uniform(-1, 2);
        options.push_back({draw.integer(0, kinds - 1), draw.integer(0, 11), value});
      }
      problem.jobs.push_back(options);
    }
    const Assignment answer = solve_assignment(problem);
    INFO("round " << round);
    CHECK(feasible(problem, answer.choice));
    CHECK(answer.optimal);
    CHECK(answer.objective ==
          doctest::Approx(least_by_trying_all(problem, problem.capacity, 0)).epsilon(1e-12));
    CHECK(answer.objective == doctest::Approx(assignment_objective(problem, answer.choice)));
  }
}

TEST_CASE("equal jobs: as many are served as there are GPUs") {
  AssignmentProblem problem;
  problem.unassigned = 1.1;
  problem.capacity = {100};
  problem.jobs.assign(500, {{0, 1, 1.0}, {0, 4, 0.8}});
  const Assignment answer = solve_assignment(problem);
  CHECK(answer.optimal);
  CHECK(answer.objective == doctest::Approx(400 * 1.1 + 100));
}

double processor_seconds() {
  timespec time;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_CASE("large problems are answered in time, within a thousandth of the bound") {
  struct Size {
    int jobs;
    std::vector<int64_t> capacity;
    int most;
    double seconds;
  };
  const Size sizes[] = {{512, {2048}, 64, 0.3},
                        {512, {1024, 512, 512}, 64, 0.3},
                        {2000, {10000}, 1024, 2},
                        {2000, {4000, 2000, 2000, 2000}, 512, 2},
                        {2000, {500, 300, 200, 100}, 64, 2},
                        {20, {24, 24, 16, 16}, 32, 2},
                        {160, {16, 16, 16, 16, 16, 16, 16, 16}, 16, 2}};
  for (const Size& size : sizes) {
    const AssignmentProblem problem = sia_like(7, size.jobs, size.capacity, size.most);
    const double start = processor_seconds();
    const Assignment answer = solve_assignment(problem);
    const double took = processor_seconds() - start;
    INFO(size.jobs << " jobs, " << size.capacity.size() << " kinds: " << took << " s, gap "
                   << answer.objective - answer.bound);
    CHECK(feasible(problem, answer.choice));
    CHECK(answer.objective <= answer.bound * 1.001);
    CHECK(took < 3 * size.seconds);  // other builds and busy machines are slower
  }
}

TEST_CASE("equal problems get equal answers") {
  const AssignmentProblem problem = sia_like(3, 200, {64, 32, 32}, 32);
  const Assignment first = solve_assignment(problem), again = solve_assignment(problem);
  CHECK(first.choice == again.choice);
  CHECK_FALSE(first.cut_short);
}

TEST_CASE("whatever the budget, the answer is feasible and close") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const AssignmentProblem problem = sia_like(seed, 150, {64, 48, 32}, 32);
    const double best = solve_assignment(problem).objective;
    for (const int64_t work : {0, 1, 1000, 100'000, 1'000'000}) {
      const Assignment answer = solve_assignment(problem, {work, {}});
      INFO("seed " << seed << ", work " << work);
      CHECK(feasible(problem, answer.choice));
      CHECK_FALSE(answer.cut_short);
      CHECK(answer.bound <= best + 1e-9);
      CHECK(best <= answer.objective + 1e-9);
      CHECK(answer.objective <= best * 1.02);
    }
  }
}

TEST_CASE("a deadline that is over leaves a feasible answer") {
  SearchBudget budget;
  budget.deadline = Monotonic::now();
  const AssignmentProblem problem = sia_like(1, 500, {128, 100, 60}, 32);
  const Assignment answer = solve_assignment(problem, budget);
  CHECK(feasible(problem, answer.choice));
  CHECK(answer.cut_short);
  CHECK(answer.objective < 1.1 * 500);
}

}  // namespace
}  // namespace adaptdl
