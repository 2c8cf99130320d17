// {"instances": [jobs on nodes of some GPUs, with evaluated allocations and the best known ones]}.
// The objective must agree exactly; the search is judged by how far it stays below the best known,
// from the present allocation.

#include <chrono>

#include "core/formats/json.h"
#include "core/policy/feasibility.h"
#include "core/policy/pollux/pollux.h"
#include "tests/vectors/kinds.h"
#include "tests/vectors/report.h"

namespace adaptdl::vectors {
namespace {

constexpr double kRounding = 1e-9;
constexpr double kGap = 5e-3;

struct Instance {
  std::string where;
  Snapshot snapshot;
};

using Shares = std::vector<std::vector<int>>;

NodeList node_list(const Shares& shares, const std::string& where) {
  NodeList nodes;
  for (const auto& share : shares) {
    if (share.size() != 2 || share[1] < 1) fail("{}: a share is [node, replicas]", where);
    nodes.insert(nodes.end(), static_cast<size_t>(share[1]), share[0]);
  }
  return nodes;
}

JobSnapshot read_job(const Json& c, const std::string& where) {
  JobSnapshot job;
  job.name = where;
  job.age_s = json_get<double>(c, "age", where);
  job.restarts = json_get<int>(c, "restarts", where);
  job.min_replicas = json_get<int>(c, "min_replicas", where);
  job.max_replicas = json_get<int>(c, "max_replicas", where);
  job.preemptible = !json_get<bool>(c, "non_preemptible", where);
  job.request = {1};
  job.nodes = node_list(json_get<Shares>(c, "current", where), where);
  job.hints.perf = perf_params_from_json(json_get<Json>(c, "perf_params", where), where);
  const auto grad = json_get<Json>(c, "grad_params", where);
  job.hints.grad =
      GradParams{json_get<double>(grad, "sqr", where), json_get<double>(grad, "var", where)};
  const auto range = json_get<std::vector<int64_t>>(c, "atomic_bsz_range", where);
  if (range.size() != 2) fail("{}: atomic_bsz_range must have two numbers", where);
  job.hints.batch = BatchBounds{json_get<int64_t>(c, "init_batch_size", where),
                                json_get<int64_t>(c, "max_batch_size", where), range[0], range[1],
                                json_get<bool>(c, "accumulation", where)};
  job.hints.max_profiled_replicas = json_get<int>(c, "max_profiled", where);
  job.hints.rescale_cost_s = json_get<double>(c, "restart_cost", where);
  return job;
}

Instance read_instance(const Json& c, const std::string& where, Report& report) {
  Instance instance{where, {}};
  instance.snapshot.resources = {"gpu"};
  for (const auto gpus : json_get<std::vector<int64_t>>(c, "node_gpus", where)) {
    const auto name = fmt::format("node-{}", instance.snapshot.nodes.size());
    instance.snapshot.nodes.push_back({name, "", {gpus}});
  }
  for (const Json& job : json_get<std::vector<Json>>(c, "jobs", where)) {
    const auto name = fmt::format("{} job {}", where, instance.snapshot.jobs.size());
    instance.snapshot.jobs.push_back(read_job(job, name));
    report.require(name,
                   pollux_limit(instance.snapshot.jobs.back()) == json_get<int>(job, "limit", name),
                   "another limit of replicas");
  }
  check_snapshot(instance.snapshot);
  return instance;
}

std::vector<NodeList> read_allocation(const Json& c, const Instance& instance,
                                      const std::string& where) {
  std::vector<NodeList> allocation(instance.snapshot.jobs.size());
  for (const auto& share : json_get<Shares>(c, "allocation", where)) {
    if (share.size() != 3 || share[0] < 0 || share[0] >= static_cast<int>(allocation.size()) ||
        share[1] < 0 || share[1] >= static_cast<int>(instance.snapshot.nodes.size())) {
      fail("{}: an allocation is [job, node, replicas]", where);
    }
    auto& nodes = allocation[static_cast<size_t>(share[0])];
    nodes.insert(nodes.end(), static_cast<size_t>(share[2]), share[1]);
  }
  return allocation;
}

// The rule that is broken, in the file's words; "" if none.
std::string broken(const Instance& instance, const std::vector<NodeList>& allocation) {
  for (size_t j = 0; j < allocation.size(); ++j) {
    const JobSnapshot& job = instance.snapshot.jobs[j];
    const auto replicas = static_cast<int>(allocation[j].size());
    if (!job.preemptible && !job.nodes.empty() && allocation[j] != job.nodes) return "pinned";
    if (replicas > pollux_limit(job)) return "max_replicas";
    if (replicas > 0 && replicas < job.min_replicas) return "min_replicas";
  }
  if (broken_rule(instance.snapshot, allocation, false)) return "capacity";
  return broken_rule(instance.snapshot, allocation, true) ? "interference" : "";
}

void check_evaluation(const Json& c, const Instance& instance, const std::string& where,
                      Report& report) {
  report.add_case();
  const auto allocation = read_allocation(c, instance, where);
  const bool feasible = json_get<bool>(c, "feasible", where);
  const std::string want = feasible ? "" : json_get<std::string>(c, "reason", where);
  const std::string got = broken(instance, allocation);
  report.require(where, got == want, fmt::format("breaks \"{}\", expected \"{}\"", got, want));
  if (!feasible) return;
  const auto speedup = json_get<std::vector<double>>(c, "speedup", where);
  const auto factor = json_get<std::vector<double>>(c, "factor", where);
  const auto fitness = json_get<Json>(c, "fitness", where);
  for (const auto& [key, value] : fitness.items()) {
    PolluxOptions options;
    options.fairness = std::stod(key);
    const auto result = evaluate_pollux(instance.snapshot, allocation, options);
    report.relative(where + " fitness " + key, result.fitness, value.get<double>(), kRounding);
    report.require(where, result.speedup.size() == speedup.size(), "another number of jobs");
    for (size_t j = 0; j < std::min(speedup.size(), result.speedup.size()); ++j) {
      const std::string job = fmt::format("{} job {}", where, j);
      report.relative(job + " speedup", result.speedup[j], speedup[j], kRounding);
      report.relative(job + " factor", result.factor[j], factor[j], kRounding);
    }
  }
}

// How far the search stays below the best known: relative, or where many jobs wait and p = -1 is
// nearly constant, by what the jobs that run bring beside the thousand of each that waits.
double gap(const Instance& instance, double p, double got, double best) {
  if (p != -1) return best / got - 1;
  const auto jobs = static_cast<double>(instance.snapshot.jobs.size());
  const double waiting = std::floor(jobs / best / 1000) * 1000;
  return (jobs / got - jobs / best) / std::max(jobs / best - waiting, 1.0);
}

struct Slowest {
  double ms = 0;
  std::string where;
};

void check_search(const Json& best_known, const Instance& instance, Report& report,
                  Slowest& slowest) {
  for (const auto& [key, best] : best_known.items()) {
    report.add_case();
    const std::string where = fmt::format("{} p = {}", instance.where, key);
    const double p = std::stod(key);
    const auto policy = make_policy("pollux", {{"fairness", p}});
    const auto begin = std::chrono::steady_clock::now();
    const Decision decision = policy->decide(instance.snapshot, 0, {});
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (ms > slowest.ms) slowest = {ms, where};

    std::vector<NodeList> allocation;
    for (const auto& job : decision.jobs) allocation.push_back(job.nodes);
    const std::string rule = broken(instance, allocation);
    report.require(where, rule.empty(), "the answer breaks " + rule);
    PolluxOptions options;
    options.fairness = p;
    const double got = evaluate_pollux(instance.snapshot, allocation, options).fitness;
    report.relative(where + " objective", decision.objective, got, kRounding);
    const double known = json_get<double>(best, "fitness", where);
    const double below = gap(instance, p, got, known);
    report.not_above(where + " gap", below, 0, kGap);
    if (below < -kRounding) {
      fmt::print("{}: {:.3g} better than the best known\n", where, -below);
    }
  }
}

}  // namespace

bool check_pollux(const Json& file) {
  Report evaluations, searches;
  Slowest slowest;
  const auto instances = json_get<std::vector<Json>>(file, "instances", "the file");
  for (size_t i = 0; i < instances.size(); ++i) {
    const Json& c = instances[i];
    const std::string where = fmt::format("instances[{}]", i);
    const Instance instance = read_instance(c, where, evaluations);
    const auto given = json_get<std::vector<Json>>(c, "evaluations", where);
    for (size_t e = 0; e < given.size(); ++e) {
      check_evaluation(given[e], instance, fmt::format("{} evaluations[{}]", where, e),
                       evaluations);
    }
    check_search(json_get<Json>(c, "best_known", where), instance, searches, slowest);
  }
  evaluations.print("evaluations");
  searches.print("searches");
  fmt::print("searches: the slowest took {:.1f} ms, {}\n", slowest.ms, slowest.where);
  return evaluations.passed() && searches.passed();
}

}  // namespace adaptdl::vectors
