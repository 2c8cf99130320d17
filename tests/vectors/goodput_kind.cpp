// {"goodput": [parameters with the results of optimize and evaluate], "fit": [observations with the
// objective that a reference reached]}; either may be missing.

#include <vector>

#include "core/formats/json.h"
#include "core/goodput/fit.h"
#include "core/goodput/goodput.h"
#include "tests/vectors/kinds.h"
#include "tests/vectors/report.h"

namespace adaptdl::vectors {
namespace {

constexpr double kRounding = 1e-9;
constexpr double kObjective = 1e-3;
constexpr double kLowest = 1e-8;

double number(const Json& object, const char* key, const std::string& where) {
  return json_get<double>(object, key, where);
}

int integer(const Json& object, const char* key, const std::string& where) {
  return json_get<int>(object, key, where);
}

void check_case(const Json& c, const std::string& where, Report& report) {
  report.add_case();
  const auto perf = perf_params_from_json(json_get<Json>(c, "perf_params", where), where);
  if (!perf) fail("{}: perf_params is null", where);
  const auto statistics = json_get<Json>(c, "grad_params", where);
  const GradParams grad{number(statistics, "sqr", where), number(statistics, "var", where)};
  const auto range = json_get<std::vector<int64_t>>(c, "atomic_bsz_range", where);
  if (range.size() != 2) fail("{}: atomic_bsz_range must have two numbers", where);
  const BatchBounds bounds{integer(c, "init_batch_size", where),
                           integer(c, "max_batch_size", where), range[0], range[1],
                           json_get<bool>(c, "accumulation", where)};
  const int nodes = integer(c, "num_nodes", where), replicas = integer(c, "num_replicas", where);
  const GoodputModel model(*perf, grad, bounds.initial);

  const auto best = json_get<Json>(c, "optimize", where);
  const BatchChoice choice = model.optimize(nodes, replicas, bounds);
  const double goodput = number(best, "goodput", where);
  report.relative(where + " optimize", choice.goodput, goodput, kRounding);
  const bool tie = std::abs(choice.goodput - goodput) <= 1e-13 * goodput;
  report.require(where + " optimize",
                 tie || (choice.atomic == integer(best, "atomic_bsz", where) &&
                         choice.accum_steps == integer(best, "accum_steps", where)),
                 fmt::format("chose {} x {}", choice.atomic, choice.accum_steps + 1));

  const auto at = json_get<Json>(c, "evaluate", where);
  const int atomic = integer(at, "atomic_bsz", where), steps = integer(at, "accum_steps", where);
  report.relative(where + " throughput", model.throughput(nodes, replicas, atomic, steps),
                  number(at, "throughput", where), kRounding);
  report.relative(where + " efficiency",
                  model.efficiency(static_cast<double>(replicas) * atomic * (steps + 1)),
                  number(at, "efficiency", where), kRounding);
  report.relative(where + " goodput", model.evaluate(nodes, replicas, atomic, steps),
                  number(at, "goodput", where), kRounding);
}

std::vector<PerfObservation> observations(const Json& c, const std::string& where) {
  const auto nodes = json_get<std::vector<int>>(c, "num_nodes", where);
  const auto replicas = json_get<std::vector<int>>(c, "num_replicas", where);
  const auto atomic = json_get<std::vector<double>>(c, "atomic_bsz", where);
  const auto accum = json_get<std::vector<double>>(c, "accum_step_time", where);
  const auto optim = json_get<std::vector<double>>(c, "optim_step_time", where);
  for (const size_t size : {replicas.size(), atomic.size(), accum.size(), optim.size()}) {
    if (size != nodes.size()) fail("{}: the observations' lists differ in length", where);
  }
  std::vector<PerfObservation> result;
  for (size_t i = 0; i < nodes.size(); ++i) {
    result.push_back({nodes[i], replicas[i], atomic[i], accum[i], optim[i]});
  }
  return result;
}

void check_fit(const Json& c, const std::string& where, Report& report) {
  report.add_case();
  const auto seen = observations(c, where);
  const PerfParams p = fit_perf_params(seen);
  report.not_above(where + " objective", fit_objective(p, seen),
                   number(c, "reference_objective", where), kObjective);

  bool one_atomic = true, several_nodes = false, one_node = false, beyond_two = false;
  double accum = 0;
  for (const auto& o : seen) {
    one_atomic = one_atomic && o.atomic == seen[0].atomic;
    several_nodes = several_nodes || o.nodes > 1;
    one_node = one_node || (o.nodes == 1 && o.replicas > 1);
    beyond_two = beyond_two || o.replicas > 2;
    accum += o.accum_time / static_cast<double>(seen.size());
  }
  if (one_atomic) {
    report.relative(where + " alpha_c with one atomic batch", p.alpha_c, accum / 2, kRounding);
  }
  if (!several_nodes) {
    report.require(where,
                   p.alpha_n == std::max(kLowest, 1.1 * p.alpha_r) &&
                       p.beta_n == std::max(kLowest, 1.1 * p.beta_r),
                   "nothing was seen on several nodes, so alpha_n and beta_n follow alpha_r and "
                   "beta_r");
  }
  if (!one_node) {
    report.require(where, p.alpha_r == kLowest && p.beta_r == kLowest,
                   "nothing was seen on one node with several replicas, so alpha_r and beta_r stay "
                   "at the lower bound");
  }
  if (!beyond_two) {
    report.require(where, p.beta_r == kLowest && (!several_nodes || p.beta_n == kLowest),
                   "nothing was seen with more than two replicas, so beta_n and beta_r stay at the "
                   "lower bound");
  }
  report.require(where, p.gamma >= 1 && p.gamma <= 10, "gamma is out of its bounds");
  for (const double value : {p.alpha_c, p.beta_c, p.alpha_n, p.beta_n, p.alpha_r, p.beta_r}) {
    report.require(where, value >= kLowest, "a parameter is below 1e-8");
  }
}

}  // namespace

bool check_goodput(const Json& file) {
  bool passed = true;
  struct Section {
    const char* name;
    void (*check)(const Json&, const std::string&, Report&);
  };
  for (const auto& [name, check] : {Section{"goodput", check_case}, Section{"fit", check_fit}}) {
    const auto cases = json_find<std::vector<Json>>(file, name, "the file");
    if (!cases) continue;
    Report report;
    for (size_t i = 0; i < cases->size(); ++i) {
      check((*cases)[i], fmt::format("{}[{}]", name, i), report);
    }
    report.print(name);
    passed = passed && report.passed();
  }
  if (!file.contains("goodput") && !file.contains("fit")) {
    fail("the file has neither \"goodput\" nor \"fit\"");
  }
  return passed;
}

}  // namespace adaptdl::vectors
