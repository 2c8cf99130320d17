#include "core/policy/pollux/pollux_cluster_size.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "core/policy/pollux/pollux_search.h"

namespace adaptdl {
namespace {

class Sizes {
 public:
  Sizes(const Snapshot& snapshot, const NodeSnapshot& node, const PolluxOptions& options,
        const SearchBudget& budget)
      : jobs_{snapshot.resources, {}, snapshot.jobs},
        node_(node),
        options_(options),
        budget_(budget) {
    for (JobSnapshot& job : jobs_.jobs) {
      job.nodes.clear();
      job.hints.rescale_cost_s = 0;
    }
    std::sort(jobs_.jobs.begin(), jobs_.jobs.end(),
              [](const JobSnapshot& a, const JobSnapshot& b) { return a.name < b.name; });
  }

  double utility(int nodes) {
    if (nodes == 0) return 1;  // the first accelerator brings the most
    while (static_cast<int>(jobs_.nodes.size()) < nodes) {
      NodeSnapshot next = node_;
      next.name = std::to_string(jobs_.nodes.size());
      jobs_.nodes.push_back(next);
    }
    jobs_.nodes.resize(static_cast<size_t>(nodes));
    PolluxProblem problem(jobs_, options_);
    const PolluxAnswer answer = search_pollux(problem, 0, budget_);
    double sum = 0;
    for (size_t j = 0; j < answer.rows.size(); ++j) {
      const PolluxRow& row = answer.rows[j];
      const int job = static_cast<int>(j);
      const double gain = problem.objective.speedup(job, 0, row.size() > 1, replicas_of(row)) /
                          problem.objective.speedup(job, 0, false, 1);
      // Parameters near the limits of a double may give zero goodput.
      if (std::isfinite(gain)) sum += gain;
    }
    return sum / (nodes * static_cast<double>(node_.capacity[0]));
  }

 private:
  Snapshot jobs_;
  const NodeSnapshot& node_;
  PolluxOptions options_;
  SearchBudget budget_;
};

}  // namespace

ClusterSizeWish wish_cluster_size(const Snapshot& snapshot, const NodeSnapshot& node, int min_nodes,
                                  int max_nodes, const PolluxOptions& options,
                                  const UtilityBand& band, const SearchBudget& budget) {
  check_snapshot(snapshot);
  if (node.capacity.size() != snapshot.resources.size() || node.capacity[0] <= 0) {
    fail("cluster size: a node needs an amount of each resource, above 0 for {}",
         snapshot.resources[0]);
  }
  if (min_nodes < 0 || max_nodes < min_nodes) {
    fail("cluster size: {} to {} nodes; they must satisfy 0 <= min <= max", min_nodes, max_nodes);
  }
  if (!(band.low >= 0 && band.low < band.high)) {
    fail("cluster size: utility from {} to {}; it must satisfy 0 <= low < high", band.low,
         band.high);
  }
  if (snapshot.jobs.empty())
    return {min_nodes, 0, "there are no jobs, so the minimum number of nodes is enough"};

  SearchBudget each = budget;
  each.work /= std::bit_width(static_cast<unsigned>(max_nodes)) + 2;
  Sizes sizes(snapshot, node, options, each);
  const auto present = static_cast<int>(std::ranges::count_if(
      snapshot.nodes, [](const NodeSnapshot& one) { return one.capacity[0] > 0; }));
  const int start = std::clamp(present, min_nodes, max_nodes);
  const double now = sizes.utility(start);
  if (now >= band.low && now <= band.high) {
    return {start, now,
            fmt::format("{} nodes: utility {:.2f} is between {:.2f} and {:.2f}", start, now,
                        band.low, band.high)};
  }
  const double middle = (band.low + band.high) / 2;
  int low = now > band.high ? start : min_nodes, high = now > band.high ? max_nodes : start;
  while (low < high) {
    const int probe = low + (high - low) / 2;
    if (sizes.utility(probe) <= middle) {
      high = probe;
    } else {
      low = probe + 1;
    }
  }
  const double reached = low == start ? now : sizes.utility(low);
  const char* reason =
      now > band.high ? "jobs would use more accelerators well" : "some accelerators bring little";
  const char* limit = low == max_nodes && reached > band.high  ? ", but no more nodes are allowed"
                      : low == min_nodes && reached < band.low ? ", but no fewer nodes are allowed"
                                                               : "";
  return {
      low, reached,
      fmt::format("{} nodes: utility {:.2f} with {} nodes; {}{}", low, now, start, reason, limit)};
}

}  // namespace adaptdl
