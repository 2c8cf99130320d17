#include "core/cluster/kubernetes/jobs/live_group.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace adaptdl::kubernetes {

LiveGroup fit_live_group(const std::vector<const PodFacts*>& group,
                         const std::vector<std::string>& allocation) {
  LiveGroup fit;
  std::map<std::string, int> missing;  // by node
  for (const std::string& node : allocation) ++missing[node];
  const auto launcher =
      std::find_if(group.begin(), group.end(), [](const PodFacts* pod) { return pod->rank == 0; });
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
    fit.remove.push_back(pod);
  }
  int rank = ordered.back()->rank;
  for (const auto& [node, count] : missing) {
    for (int i = 0; i < count; ++i) fit.create.push_back({++rank, node});
  }
  return fit;
}

}  // namespace adaptdl::kubernetes
