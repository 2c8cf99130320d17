#include "core/policy/pollux/pollux.h"

#include "core/policy/by_name.h"
#include "core/policy/pollux/pollux_search.h"
#include "core/policy/pollux/pollux_why.h"

namespace adaptdl {
namespace {

class Pollux : public Policy {
 public:
  explicit Pollux(const PolluxOptions& options) : options_(options) {}
  Decision decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) override;

 private:
  PolluxOptions options_;
};

NodeList node_list(const PolluxRow& row) {
  NodeList nodes;
  for (const NodeShare& share : row) {
    nodes.insert(nodes.end(), static_cast<size_t>(share.replicas), share.node);
  }
  return nodes;
}

Decision Pollux::decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) {
  check_snapshot(snapshot);
  return decide_by_name(snapshot, [&](const Snapshot& ordered) {
    PolluxProblem problem(ordered, options_);
    const PolluxAnswer answer = search_pollux(problem, seed, budget);
    Decision decision;
    decision.objective = problem.objective.fitness(answer.total);
    decision.cut_short = answer.cut_short;
    for (size_t j = 0; j < ordered.jobs.size(); ++j) {
      const PolluxRow& row = answer.rows[j];
      const NodeList& present = ordered.jobs[j].nodes;
      decision.jobs.push_back({row == row_of(present) ? present : node_list(row),
                               why_row(problem, static_cast<int>(j), row)});
    }
    return decision;
  });
}

std::unique_ptr<Policy> make_pollux(const std::map<std::string, double>& options) {
  PolluxOptions chosen;
  chosen.fairness = options.at("fairness");
  chosen.avoid_interference = options.at("avoid-interference") != 0;
  chosen.rescale_cost_s = options.at("rescale-cost");
  return std::make_unique<Pollux>(chosen);
}

}  // namespace

PolicyInfo pollux_policy() {
  return {
      "pollux",
      "adapts every job's replicas to the goodput that they bring, fairly among jobs",
      {{"fairness", "", -1, -10, 10,
        "exponent of the mean over jobs: a lower one favours the worst-off jobs, 1 counts only the "
        "sum"},
       {"avoid-interference", "flag", 1, 0, 1,
        "two jobs that each span several nodes never share a node, since their traffic slows both"},
       {"rescale-cost", "s", 30, 0, 3600,
        "cost of a change of allocation for a job that has not measured it"}},
      make_pollux};
}

}  // namespace adaptdl
