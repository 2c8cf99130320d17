#pragma once

// Placeholders: small pods, at most one on a node, as many as the policy wishes nodes. One that
// finds no node makes any cluster autoscaler add one; a node without one is free to be removed.
// Pure; the operator looks at the cluster and carries the plan out.

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// How many nodes there are to be. What is more is followed at once, what is less only when nothing
// else has been wished for `patience_s`: a job that ends and the next that comes would otherwise
// cost a node each time.
class SteadyWish {
 public:
  explicit SteadyWish(double patience_s) : patience_s_(patience_s) {}

  // `now_s`: of a clock that does not jump, never less than before. Returns the most that was
  // wished within the patience.
  int add(double now_s, int nodes);

 private:
  const double patience_s_;
  std::deque<std::pair<double, int>> wishes_;  // by time; each less than the one before it
};

struct Placeholder {
  std::string name, uid;
  std::string node;   // "" while it waits for one
  bool over = false;  // it has ended, or is being deleted
};

struct PlaceholderPlan {
  int make = 0;
  std::vector<Placeholder> remove;
};

// Towards `wished` placeholders. First go those that have ended and those that wait for a node,
// then those on nodes with the fewest replicas of jobs (`replicas`, by node), so that what is given
// up moves least.
PlaceholderPlan plan_placeholders(const std::vector<Placeholder>& placeholders, int wished,
                                  const std::map<std::string, int>& replicas);

// A placeholder's pod, of an image that sleeps. `overlay`: a JSON merge patch of its spec, for what
// an installation's nodes demand (tolerations, a node selector, a priority class); null: none. Its
// priority has to be low, so that jobs take its room, but not below what the autoscaler acts on.
Json make_placeholder(const std::string& name_space, const std::string& name,
                      const std::string& image, const Json& overlay);

}  // namespace adaptdl::kubernetes
