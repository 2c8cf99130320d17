#pragma once

// Placeholders: small pods, at most one on a node, as many as the policy wants nodes. A placeholder
// without a node makes any cluster autoscaler add one; the autoscaler may remove a node without a
// placeholder. Pure; the operator reads the cluster and carries out the plan.

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Smooths the wanted number of nodes: it grows at once, and shrinks only to the most that was
// wanted within the last `patience_s`. Otherwise each change from one job to the next would cost a
// node.
class SteadyWish {
 public:
  explicit SteadyWish(double patience_s) : patience_s_(patience_s) {}

  // `now_s`: of a monotonic clock, never less than before. Returns the most that was wanted within
  // the last `patience_s`.
  int add(double now_s, int nodes);

 private:
  const double patience_s_;
  std::deque<std::pair<double, int>> wishes_;  // by time; each less than the one before it
};

struct Placeholder {
  std::string name, uid;
  std::string node;   // "" while it waits for one
  bool over = false;  // ended, being deleted, or on a node that is leaving
};

struct PlaceholderPlan {
  int make = 0;
  std::vector<Placeholder> remove;
};

// Plans changes towards `wished` placeholders. Removes first those that have ended and those that
// wait for a node, then those on nodes with the fewest replicas of jobs (`replicas`, by node), so
// that few replicas have to move.
PlaceholderPlan plan_placeholders(const std::vector<Placeholder>& placeholders, int wished,
                                  const std::map<std::string, int>& replicas);

// A placeholder's pod, of an image that only sleeps. `overlay`: a JSON merge patch of its spec, for
// what an installation's nodes require (tolerations, a node selector, a priority class); null:
// none. Its priority must be low, so that jobs can preempt it, but not so low that the autoscaler
// ignores it.
Json make_placeholder(const std::string& name_space, const std::string& name,
                      const std::string& image, const Json& overlay);

}  // namespace adaptdl::kubernetes
