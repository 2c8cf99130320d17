// {"instances": [assignment problems with proven optima], "values": [the options of one job and how
// their values come about]}; either may be missing.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/formats/json.h"
#include "core/policy/assignment.h"
#include "core/policy/sia/sia_values.h"
#include "tests/vectors/kinds.h"
#include "tests/vectors/report.h"

namespace adaptdl::vectors {
namespace {

constexpr double kRounding = 1e-9;   // relative
constexpr double kObjective = 1e-6;  // absolute, where the answer is said to be optimal
constexpr double kGap = 2e-3;        // relative, where it is not

double number(const Json& object, const char* key, const std::string& where) {
  return json_get<double>(object, key, where);
}

// A row of numbers, at least `size` of them.
std::vector<double> row_of(const Json& value, size_t size, const std::string& where) {
  std::vector<double> row;
  if (value.is_array()) {
    for (const Json& item : value) row.push_back(item.is_number() ? item.get<double>() : NAN);
  }
  if (row.size() < size) fail("{}: must be a list of {} numbers", where, size);
  return row;
}

struct Instance {
  AssignmentProblem problem;  // without the pinned jobs and what they hold
  double pinned = 0;          // what these add to the objective
};

Instance read_instance(const Json& c, const std::string& where) {
  Instance instance;
  instance.problem.unassigned = number(c, "lambda", where);
  for (const Json& type : json_get<std::vector<Json>>(c, "types", where)) {
    instance.problem.capacity.push_back(json_get<int64_t>(type, "nodes", where) *
                                        json_get<int64_t>(type, "gpus_per_node", where));
  }
  for (const Json& job : json_get<std::vector<Json>>(c, "jobs", where)) {
    const bool pinned = json_get<bool>(job, "pinned", where);
    const Json current = json_get<Json>(job, "current", where);
    std::vector<AssignmentOption> options;
    for (const Json& config : json_get<std::vector<Json>>(job, "configs", where)) {
      const auto row = row_of(config, 4, where);
      const AssignmentOption option = {static_cast<int>(row[0]), static_cast<int64_t>(row[2]),
                                       row[3]};
      if (option.kind < 0 || static_cast<size_t>(option.kind) >= instance.problem.capacity.size()) {
        fail("{}: a configuration's type is out of range", where);
      }
      if (!pinned) {
        options.push_back(option);
      } else if (const auto now = row_of(current, 3, where);
                 row[0] == now[0] && row[1] == now[1] && row[2] == now[2]) {
        instance.pinned += option.value;
        instance.problem.capacity[static_cast<size_t>(option.kind)] -= option.gpus;
      }
    }
    if (!pinned) instance.problem.jobs.push_back(std::move(options));
  }
  return instance;
}

void check_feasible(const AssignmentProblem& problem, const Assignment& answer,
                    const std::string& where, Report& report) {
  std::vector<int64_t> used(problem.capacity.size());
  bool known = answer.choice.size() == problem.jobs.size();
  for (size_t j = 0; known && j < answer.choice.size(); ++j) {
    if (answer.choice[j] < 0) continue;
    known = static_cast<size_t>(answer.choice[j]) < problem.jobs[j].size();
    if (!known) break;
    const auto& option = problem.jobs[j][static_cast<size_t>(answer.choice[j])];
    used[static_cast<size_t>(option.kind)] += option.gpus;
  }
  report.require(where, known, "the choice is not one option, or none, for each job");
  for (size_t k = 0; k < used.size(); ++k) {
    report.require(where, used[k] <= problem.capacity[k],
                   "more GPUs are given away than there are");
  }
}

bool check_instances(const std::vector<Json>& cases) {
  Report exact, heuristic;
  double slowest = 0;
  int optimal = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string where = fmt::format("instances[{}]", i);
    const Instance instance = read_instance(cases[i], where);
    const double best = number(json_get<Json>(cases[i], "optimum", where), "objective", where);
    const auto start = Monotonic::now();
    const Assignment answer = solve_assignment(instance.problem);
    slowest = std::max(slowest, seconds_since(start));
    const double objective = answer.objective + instance.pinned;
    Report& report = answer.optimal ? exact : heuristic;
    optimal += answer.optimal;
    report.add_case();
    check_feasible(instance.problem, answer, where, report);
    if (answer.optimal) {
      report.not_above(where, objective, best, kObjective);
      report.not_above(where + " below the optimum", best, objective, kObjective);
    } else {
      report.not_above(where + " relative gap", objective / best - 1, 0, kGap);
      report.not_above(where + " bound", answer.bound + instance.pinned, best, kObjective);
    }
  }
  if (optimal > 0) exact.print("instances solved to a proven optimum (absolute error)");
  if (optimal < static_cast<int>(cases.size())) heuristic.print("instances without proof (gap)");
  fmt::print("slowest instance: {:.1f} ms\n", 1e3 * slowest);
  return (optimal == 0 || exact.passed()) &&
         (optimal == static_cast<int>(cases.size()) || heuristic.passed());
}

// Goodput by kind, as the job's parameters there have it.
std::vector<GoodputTable> read_goodput(const Json& c, int64_t& most, const std::string& where) {
  const auto statistics = json_get<Json>(c, "grad_params", where);
  const GradParams grad{number(statistics, "sqr", where), number(statistics, "var", where)};
  const auto range = json_get<std::vector<int64_t>>(c, "atomic_bsz_range", where);
  if (range.size() != 2 || range[0] < 1) fail("{}: atomic_bsz_range must be two sizes", where);
  const BatchBounds bounds{json_get<int>(c, "init_batch_size", where),
                           json_get<int>(c, "max_batch_size", where), range[0], range[1],
                           json_get<bool>(c, "accumulation", where)};
  most = std::min({std::max<int64_t>(2 * json_get<int64_t>(c, "max_profiled", where), 1),
                   json_get<int64_t>(c, "max_replicas", where), bounds.max / range[0]});
  std::vector<GoodputTable> tables;
  for (const Json& params : json_get<std::vector<Json>>(c, "perf_params", where)) {
    const auto perf = perf_params_from_json(params, where);
    if (!perf) fail("{}: perf_params holds null", where);
    tables.emplace_back(GoodputModel(*perf, grad, bounds.initial), bounds);
  }
  return tables;
}

void check_values_of(const Json& c, const std::string& where, Report& report) {
  report.add_case();
  int64_t most = 0;
  auto goodput = read_goodput(c, most, where);
  std::vector<KindRoom> rooms;
  for (const Json& type : json_get<std::vector<Json>>(c, "types", where)) {
    const int per_node = json_get<int>(type, "gpus_per_node", where);
    rooms.push_back({json_get<int>(type, "nodes", where), per_node, per_node});
  }
  if (rooms.size() != goodput.size()) fail("{}: as many perf_params as types, please", where);
  std::optional<Configuration> present;
  if (const Json current = json_get<Json>(c, "current", where); !current.is_null()) {
    const auto row = row_of(current, 3, where);
    present = {static_cast<int>(row[0]), static_cast<int>(row[1]), static_cast<int>(row[2])};
  }
  const double change =
      present ? restart_factor(number(c, "age", where), json_get<int>(c, "restarts", where),
                               number(c, "restart_cost", where))
              : 1;
  const auto configurations = list_configurations(
      rooms, std::max(json_get<int>(c, "min_replicas", where), 1), static_cast<int>(most));
  const auto values = sia_values(configurations, goodput, present, change, number(c, "p", where));

  const auto rows = json_get<std::vector<Json>>(c, "configs", where);
  report.require(where, rows.size() == values.size(),
                 fmt::format("{} configurations, expected {}", values.size(), rows.size()));
  for (size_t i = 0; i < std::min(rows.size(), values.size()); ++i) {
    const std::string at = fmt::format("{} configs[{}]", where, i);
    const Configuration want = {json_get<int>(rows[i], "type", at),
                                json_get<int>(rows[i], "nodes", at),
                                json_get<int>(rows[i], "gpus", at)};
    report.require(at, configurations[i] == want, "another configuration is expected here");
    report.relative(at + " goodput", values[i].goodput, number(rows[i], "goodput", at), kRounding);
    report.relative(at + " normalised", values[i].normalised, number(rows[i], "normalised", at),
                    kRounding);
    report.relative(at + " factor", values[i].factor, number(rows[i], "factor", at), kRounding);
    const auto value = json_find<double>(rows[i], "V", at);
    if (value) report.relative(at + " V", values[i].value, *value, kRounding);
    report.require(at, value.has_value() == std::isfinite(values[i].value),
                   "allowed here and forbidden there");
  }
}

bool check_values(const std::vector<Json>& cases) {
  Report report;
  for (size_t i = 0; i < cases.size(); ++i) {
    check_values_of(cases[i], fmt::format("values[{}]", i), report);
  }
  report.print("values");
  return report.passed();
}

}  // namespace

bool check_sia(const Json& file) {
  const auto instances = json_find<std::vector<Json>>(file, "instances", "the file");
  const auto values = json_find<std::vector<Json>>(file, "values", "the file");
  if (!instances && !values) fail("the file has neither \"instances\" nor \"values\"");
  bool passed = true;
  if (values) passed = check_values(*values) && passed;
  if (instances) passed = check_instances(*instances) && passed;
  return passed;
}

}  // namespace adaptdl::vectors
