#include "core/cluster/kubernetes/jobs/live_group.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace adaptdl::kubernetes {

namespace {

constexpr int kKilled = 128;  // an exit code above it: ended by a signal

bool is_lost(const PodFacts& launcher) {
  return launcher.end == PodEnd::disrupted || launcher.end == PodEnd::memory ||
         (launcher.end == PodEnd::failed && launcher.exit_code > kKilled);
}

}  // namespace

bool may_be_led_again(const std::vector<const PodFacts*>& group, const JobStatus& status,
                      double unled_s) {
  const int launcher = status.launcher();
  const bool lost = std::ranges::all_of(
      group, [launcher](const PodFacts* pod) { return pod->rank != launcher || is_lost(*pod); });
  const bool others = std::ranges::any_of(group, [launcher](const PodFacts* pod) {
    return pod->rank != launcher && pod->ready && pod->end == PodEnd::none;
  });
  return lost && others && unled_s < kSuccession;
}

LiveGroup fit_live_group(const std::vector<const PodFacts*>& group, const JobStatus& status) {
  LiveGroup fit;
  std::map<std::string, int> missing;  // by node
  for (const std::string& node : status.allocation) ++missing[node];
  const auto launcher = std::ranges::find(group, status.launcher(), &PodFacts::rank);
  if (launcher == group.end()) {
    fit.over = "the launcher's pod is gone";
    return fit;
  }
  if (!missing.contains((*launcher)->node)) {
    fit.over =
        fmt::format("the launcher's node {} is no longer allocated to the job", (*launcher)->node);
    return fit;
  }
  // The pods with the smallest ranks stay: the others came last.
  std::vector<const PodFacts*> ordered = group;
  std::sort(ordered.begin(), ordered.end(),
            [](const PodFacts* a, const PodFacts* b) { return a->rank < b->rank; });
  for (const PodFacts* pod : ordered) {
    // A finished pod needs no replacement: the launcher is about to finish, too.
    if (pod->end == PodEnd::none || pod->end == PodEnd::succeeded) {
      if (--missing[pod->node] < 0) fit.remove.push_back(pod);
      continue;
    }
    if (!pod->deleting) fit.failed_s = std::max({fit.failed_s, pod->ended_s, pod->created_s});
    const bool led = pod->rank == 0 || std::ranges::count(status.launchers, pod->rank) != 0;
    if (!led || pod->deleting) fit.remove.push_back(pod);
  }
  // A launcher's rank is not used again while it is in the job's status.
  int rank = std::max(ordered.back()->rank, status.launcher());
  for (const auto& [node, count] : missing) {
    for (int i = 0; i < count; ++i) fit.create.push_back({++rank, node});
  }
  return fit;
}

}  // namespace adaptdl::kubernetes
