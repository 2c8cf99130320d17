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
        seen_on_(snapshot.nodes.size()),
        free_(snapshot) {
    for (const Anchor& anchor : anchors) anchors_[index(anchor.job)] = anchor.node;
    for (size_t j = 0; j < allocation.size(); ++j) {
      const auto job = static_cast<int>(j);
      free_.take(job, allocation[j]);
      for (const int node : allocation[j]) seen_on_[index(node)].insert(job);
    }
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
      for (const int other : seen_on_[index(anchor.node)]) {
        if (exchange(anchor.job, node, other, anchor.node)) return;
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
    if (room) replace(job, from, to);
    return room;
  }

  void replace(int job, int from, int to) {
    std::replace(list(job).begin(), list(job).end(), from, to);
    seen_on_[index(to)].insert(job);
  }

  // Jobs of several nodes slow each other down if they share a node.
  bool may_span(int job, int node) {
    if (distinct_nodes(list(job)) < 2) return true;
    for (const int other : seen_on_[index(node)]) {
      const NodeList& nodes = list(other);
      if (other != job && has(nodes, node) && distinct_nodes(nodes) > 1) return false;
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
    replace(job, node, home);
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
  std::vector<int> anchors_;            // by job; -1: none
  std::vector<std::set<int>> seen_on_;  // by node: all jobs there, and some that have left
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
