#include "core/policy/pollux/pollux_allocation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {

PolluxRow row_of(const NodeList& nodes) {
  NodeList sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  PolluxRow row;
  for (const int node : sorted) {
    if (row.empty() || row.back().node != node) row.push_back({node, 0});
    ++row.back().replicas;
  }
  return row;
}

int replicas_of(const PolluxRow& row) {
  int sum = 0;
  for (const NodeShare& share : row) sum += share.replicas;
  return sum;
}

PolluxAllocation::PolluxAllocation(const Snapshot& snapshot, const PolluxObjective& objective,
                                   bool avoid_interference)
    : snapshot_(&snapshot),
      avoid_(avoid_interference),
      rows_(snapshot.jobs.size()),
      nodes_(static_cast<size_t>(objective.kinds())),
      spanning_(snapshot.nodes.size()) {
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
    const auto& capacity = snapshot.nodes[n].capacity;
    free_.insert(free_.end(), capacity.begin(), capacity.end());
    all_free_ += capacity[0];
    nodes_[static_cast<size_t>(objective.kind_of(static_cast<int>(n)))].push_back(
        static_cast<int>(n));
  }
}

int PolluxAllocation::fits(int job, int node) const {
  const auto& request = snapshot_->jobs[static_cast<size_t>(job)].request;
  const int64_t* free = &free_[static_cast<size_t>(node) * request.size()];
  int64_t replicas = std::numeric_limits<int>::max();
  for (size_t r = 0; r < request.size(); ++r) {
    if (request[r] == 0) continue;
    replicas = std::min(replicas, request[r] == 1 ? free[r] : free[r] / request[r]);
  }
  return static_cast<int>(std::max<int64_t>(replicas, 0));
}

bool PolluxAllocation::can_put(int job, const PolluxRow& row) const {
  for (const NodeShare& share : row) {
    if (fits(job, share.node) < share.replicas) return false;
    if (row.size() > 1 && !spans(share.node)) return false;
  }
  return true;
}

void PolluxAllocation::account(int job, const PolluxRow& row, int64_t sign) {
  const auto& request = snapshot_->jobs[static_cast<size_t>(job)].request;
  for (const NodeShare& share : row) {
    const auto n = static_cast<size_t>(share.node);
    for (size_t r = 0; r < request.size(); ++r) {
      free_[n * request.size() + r] -= sign * share.replicas * request[r];
    }
    all_free_ -= sign * share.replicas * request[0];
    if (row.size() > 1) spanning_[n] += static_cast<int>(sign);
  }
}

void PolluxAllocation::put(int job, PolluxRow row) {
  PolluxRow& own = rows_[static_cast<size_t>(job)];
  ADAPTDL_CHECK(own.empty());
  own = std::move(row);
  account(job, own, 1);
}

void PolluxAllocation::remove(int job) {
  PolluxRow& own = rows_[static_cast<size_t>(job)];
  account(job, own, -1);
  own.clear();
}

PolluxAllocation::Room PolluxAllocation::room(int job, int kind) const {
  Room room;
  for (const int node : nodes(kind)) {
    const int here = fits(job, node);
    if (here == 0) continue;
    room.most_on_one = std::max(room.most_on_one, here);
    if (!spans(node)) continue;
    room.on_several += here;
    room.largest_spanned = std::max(room.largest_spanned, here);
    ++room.spanned_nodes;
  }
  return room;
}

PolluxRow PolluxAllocation::on_one(int job, int kind, int replicas) const {
  int best = -1, best_fits = std::numeric_limits<int>::max();
  for (const int node : nodes(kind)) {
    const int here = fits(job, node);
    if (here < replicas || here >= best_fits) continue;
    best = node;
    best_fits = here;
  }
  return best < 0 ? PolluxRow{} : PolluxRow{{best, replicas}};
}

PolluxRow PolluxAllocation::on_several(int job, int kind, int replicas) const {
  std::vector<NodeShare> rooms;  // a heap: most free replicas first, then the lower index
  for (const int node : nodes(kind)) {
    const int here = spans(node) ? fits(job, node) : 0;
    if (here > 0) rooms.push_back({node, here});
  }
  const auto less = [](const NodeShare& a, const NodeShare& b) {
    return std::pair(a.replicas, b.node) < std::pair(b.replicas, a.node);
  };
  std::make_heap(rooms.begin(), rooms.end(), less);
  PolluxRow row;
  int left = replicas;
  while (left > 0 && !rooms.empty()) {
    NodeShare share = rooms.front();
    if (!row.empty() && share.replicas > left) {
      // The rest goes to the node with the fewest free resources.
      for (const NodeShare& other : rooms) {
        if (other.replicas >= left && less(other, share)) share = other;
      }
      share.replicas = left;
    } else {
      std::pop_heap(rooms.begin(), rooms.end(), less);
      rooms.pop_back();
      share.replicas = std::min(share.replicas, row.empty() ? replicas - 1 : left);
    }
    row.push_back(share);
    left -= share.replicas;
  }
  if (left > 0 || row.size() < 2) return {};
  std::sort(row.begin(), row.end(),
            [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
  return row;
}

}  // namespace adaptdl
