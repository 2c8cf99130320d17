#pragma once

// Looks how many nodes the cluster's jobs are worth (core/policy/pollux/pollux_cluster_size.h), and
// keeps as many placeholders (placeholders.h).

#include <optional>
#include <string>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/nodes/placeholders.h"
#include "core/policy/snapshot.h"

namespace adaptdl::kubernetes {

struct ExpanderOptions {
  int min_nodes = 0, max_nodes = 0;  // of the wish; max_nodes 0: there are no placeholders
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

  // One look. Throws Error if the cluster cannot be asked; the next look tries again.
  void look();

 private:
  int wish();

  kube::Client& client_;
  const ClusterCache& cache_;
  const ExpanderOptions options_;
  SteadyWish steady_;
  std::string said_;  // the last reason
};

// Where none are wished for any more: each that waits for a node would still make the autoscaler
// add one. Throw Error if the cluster cannot be asked.
void remove_placeholders(kube::Client& client, const std::string& name_space);
bool has_placeholders(kube::Client& client, const std::string& name_space);

}  // namespace adaptdl::kubernetes
