#include "core/sched/anchors.h"

#include <algorithm>
#include <set>

#include "core/policy/feasibility.h"

namespace adaptdl {
namespace {

class Mover {
 public:
  Mover(const Snapshot& snapshot, const std::vector<Anchor>& anchors,
        std::vector<NodeList>& allocation)
      : snapshot_(snapshot),
        allocation_(allocation),
        anchors_(snapshot.jobs.size(), -1),
        free_(snapshot) {
    for (const Anchor& anchor : anchors) anchors_[index(anchor.job)] = anchor.node;
    for (size_t j = 0; j < allocation.size(); ++j) free_.take(static_cast<int>(j), allocation[j]);
  }

  void bring_home(const Anchor& anchor) {
    const NodeList& nodes = list(anchor.job);
    const bool keeps = !snapshot_.jobs[index(anchor.job)].preemptible;
    if (nodes.empty() || keeps || has(nodes, anchor.node)) return;
    for (const int node : others(anchor)) {
      if (snapshot_.nodes[index(node)].accelerator !=
          snapshot_.nodes[index(anchor.node)].accelerator) {
        continue;
      }
      if (move(anchor.job, node, anchor.node)) return;
      for (size_t k = 0; k < allocation_.size(); ++k) {
        if (exchange(anchor.job, node, static_cast<int>(k), anchor.node)) return;
      }
    }
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }
  static bool has(const NodeList& nodes, int node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  }
  NodeList& list(int job) { return allocation_[index(job)]; }

  // Nodes of the job's new allocation, new nodes first.
  std::vector<int> others(const Anchor& anchor) {
    const NodeList& present = snapshot_.jobs[index(anchor.job)].nodes;
    const NodeList& nodes = list(anchor.job);
    const std::set<int> distinct(nodes.begin(), nodes.end());
    std::vector<int> result(distinct.begin(), distinct.end());
    std::stable_partition(result.begin(), result.end(),
                          [&](int node) { return !has(present, node); });
    return result;
  }

  // Moves all the job's replicas of one node, if they fit on the other one.
  bool move(int job, int from, int to) {
    const NodeList& nodes = list(job);
    const auto count = std::count(nodes.begin(), nodes.end(), from);
    free_.release(job, from, count);
    const bool room = free_.fits(job, to) >= count && may_span(job, to);
    free_.take(job, room ? to : from, count);
    if (room) std::replace(list(job).begin(), list(job).end(), from, to);
    return room;
  }

  // Jobs of several nodes slow each other down if they share a node.
  bool may_span(int job, int node) {
    if (distinct_nodes(list(job)) < 2) return true;
    for (size_t k = 0; k < allocation_.size(); ++k) {
      const NodeList& nodes = allocation_[k];
      if (static_cast<int>(k) != job && has(nodes, node) && distinct_nodes(nodes) > 1) return false;
    }
    return true;
  }

  bool exchange(int job, int node, int other, int home) {
    const NodeList& theirs = list(other);
    const NodeList& present = snapshot_.jobs[index(other)].nodes;
    const bool moves = theirs != present && anchors_[index(other)] != home;
    if (other == job || !moves || !has(theirs, home) || has(theirs, node)) return false;
    const NodeList before = theirs, own = list(job);
    // While one job moves, the other one holds no nodes.
    free_.release(job, own);
    list(job).clear();
    const bool gone = move(other, home, node);
    list(job) = own;
    std::replace(list(job).begin(), list(job).end(), node, home);
    if (gone && free_.can_take(job, list(job)) && may_span(job, home)) {
      free_.take(job, list(job));
      return true;
    }
    free_.release(other, list(other));
    list(other) = before;
    free_.take(other, before);
    list(job) = own;
    free_.take(job, own);
    return false;
  }

  const Snapshot& snapshot_;
  std::vector<NodeList>& allocation_;
  std::vector<int> anchors_;  // by job; -1: none
  FreeResources free_;
};

}  // namespace

void keep_anchors(const Snapshot& snapshot, const std::vector<Anchor>& anchors,
                  std::vector<NodeList>& allocation) {
  Mover mover(snapshot, anchors, allocation);
  for (const Anchor& anchor : anchors) {
    mover.bring_home(anchor);
    NodeList& nodes = allocation[static_cast<size_t>(anchor.job)];
    const auto first = std::find(nodes.begin(), nodes.end(), anchor.node);
    if (first != nodes.end()) std::rotate(nodes.begin(), first, first + 1);
  }
}

}  // namespace adaptdl
