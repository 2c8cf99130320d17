#pragma once

// Computes the number of nodes that the cluster's jobs justify
// (core/policy/pollux/pollux_cluster_size.h), and keeps as many placeholders (placeholders.h).

#include <optional>
#include <string>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/nodes/placeholders.h"
#include "core/policy/snapshot.h"

namespace adaptdl::kubernetes {

struct ExpanderOptions {
  int min_nodes = 0, max_nodes = 0;  // bounds; max_nodes 0: no placeholders
  PodSettings pods = {};             // of jobs' pods
  std::string name_space;            // of the placeholders
  std::string image;                 // of the placeholders
  Json overlay;                      // see make_placeholder()
  double interval_s = 30;            // between looks
  double patience_s = 600;           // see SteadyWish
};

// One thread.
class NodeExpander {
 public:
  // Borrows both for its life.
  NodeExpander(kube::Client& client, const ClusterCache& cache, ExpanderOptions options);

  // Updates the placeholders once. Throws Error if the cluster is unreachable or refuses; the next
  // call tries again.
  void look();

 private:
  int wish();

  kube::Client& client_;
  const ClusterCache& cache_;
  const ExpanderOptions options_;
  SteadyWish steady_;
  std::string said_;  // the last logged reason
};

// For a disabled expander: a placeholder that waits for a node would still make the autoscaler add
// one. Both throw Error if the cluster is unreachable or refuses.
void remove_placeholders(kube::Client& client, const std::string& name_space);
bool has_placeholders(kube::Client& client, const std::string& name_space);

}  // namespace adaptdl::kubernetes
