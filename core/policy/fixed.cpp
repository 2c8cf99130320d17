#include "core/policy/fixed.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/policy/packing.h"

namespace adaptdl {
namespace {

std::string count(int64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

class Queue {
 public:
  Queue(const Snapshot& snapshot, double patience_s)
      : snapshot_(snapshot),
        patience_s_(patience_s),
        kinds_(snapshot),
        free_(snapshot),
        reserved_(snapshot.nodes.size(), -1) {}

  Decision decide() {
    Decision decision;
    decision.jobs.resize(snapshot_.jobs.size());
    // First those that must: a node may have less than when all of its jobs started.
    for (const bool preemptible : {false, true}) {
      for (size_t j = 0; j < decision.jobs.size(); ++j) {
        if (snapshot_.jobs[j].preemptible == preemptible && keeps(j))
          decision.jobs[j] = {snapshot_.jobs[j].nodes, "it keeps its allocation until it ends"};
      }
    }
    for (size_t j = 0; j < decision.jobs.size(); ++j) {
      if (decision.jobs[j].nodes.empty()) decision.jobs[j] = serve(j);
      decision.objective += static_cast<double>(decision.jobs[j].nodes.size());
    }
    return decision;
  }

 private:
  int wanted(size_t j) const {
    const JobSnapshot& job = snapshot_.jobs[j];
    return std::clamp(job.requested_replicas, std::max(job.min_replicas, 1), job.max_replicas);
  }

  bool keeps(size_t j) {
    const JobSnapshot& job = snapshot_.jobs[j];
    if (job.nodes.empty()) return false;
    const auto replicas = static_cast<int>(job.nodes.size());
    if (job.preemptible && (replicas < job.min_replicas || replicas > job.max_replicas)) {
      return false;
    }
    const auto kind_of = [&](int node) { return kinds_.of_node[static_cast<size_t>(node)]; };
    for (const int node : job.nodes) {
      if (kind_of(node) != kind_of(job.nodes.front())) return false;
    }
    const auto index = static_cast<int>(j);
    if (!free_.can_take(index, job.nodes)) return false;
    free_.take(index, job.nodes);
    return true;
  }

  JobDecision serve(size_t j) {
    const NodeList nodes = find_nodes(j);
    if (!nodes.empty()) {
      free_.take(static_cast<int>(j), nodes);
      std::string why = fmt::format("it starts with {} on {}", count(wanted(j), "replica"),
                                    count(distinct_nodes(nodes), "node"));
      if (waiting_ > 0) {
        why += fmt::format(", before {} that {} not fit yet", count(waiting_, "job"),
                           waiting_ == 1 ? "does" : "do");
      }
      return {nodes, why};
    }
    const int64_t most = room(j, true);
    if (most < wanted(j)) {
      return {{},
              fmt::format("it cannot run: it needs {}, but the nodes of one kind hold at most {}",
                          count(wanted(j), "replica"), most)};
    }
    std::string why =
        fmt::format("it waits for {}, of which {} fit now; {} {} ahead of it",
                    count(wanted(j), "replica"), room(j, false),
                    waiting_ == 0 ? "no job" : count(waiting_, "job"), waiting_ > 1 ? "are" : "is");
    if (const int holder = holder_of(j); holder >= 0) {
      why += fmt::format(", and nodes are reserved for {}",
                         snapshot_.jobs[static_cast<size_t>(holder)].name);
    }
    ++waiting_;
    if (snapshot_.jobs[j].age_s >= patience_s_) reserve(j);
    return {{}, why};
  }

  // The fewest nodes of one kind that are not reserved; empty if the job fits none.
  NodeList find_nodes(size_t j) const {
    NodeList best;
    int best_count = 0;
    for (const auto& members : kinds_.nodes) {
      NodeList nodes = find_nodes(j, members);
      const int number = distinct_nodes(nodes);
      if (nodes.empty() || (!best.empty() && number >= best_count)) continue;
      best = std::move(nodes);
      best_count = number;
    }
    return best;
  }

  NodeList find_nodes(size_t j, const NodeList& members) const {
    std::vector<std::pair<int64_t, int>> rooms;  // replicas that fit, node
    for (const int node : members) {
      if (reserved_[static_cast<size_t>(node)] >= 0) continue;
      const int64_t fits = free_.fits(static_cast<int>(j), node);
      if (fits > 0) rooms.emplace_back(fits, node);
    }
    std::stable_sort(rooms.begin(), rooms.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    NodeList nodes;
    int64_t left = wanted(j);
    for (size_t i = 0; left > 0; ++i) {
      if (i == rooms.size()) return {};
      if (rooms[i].first >= left) {
        // The last node: of those that hold the rest, the one with the fewest free resources.
        while (i + 1 < rooms.size() && rooms[i + 1].first >= left) ++i;
      }
      const int64_t here = std::min(left, rooms[i].first);
      nodes.insert(nodes.end(), static_cast<size_t>(here), rooms[i].second);
      left -= here;
    }
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  // The most replicas that nodes of one kind hold, as they are or when they are empty; at most
  // wanted(j).
  int64_t room(size_t j, bool empty) const {
    int64_t most = 0;
    for (const auto& members : kinds_.nodes) most = std::max(most, room(j, members, empty));
    return most;
  }

  int64_t room(size_t j, const NodeList& members, bool empty) const {
    int64_t sum = 0;
    for (const int node : members) {
      const int64_t enough = wanted(j) - sum;
      sum += empty ? fits_empty(snapshot_, snapshot_.jobs[j], node, enough)
                   : std::min(enough, free_.fits(static_cast<int>(j), node));
    }
    return sum;
  }

  void reserve(size_t j) {
    for (const auto& members : kinds_.nodes) {
      if (room(j, members, true) < wanted(j)) continue;
      for (const int node : members) {
        int& holder = reserved_[static_cast<size_t>(node)];
        if (holder < 0 && fits_empty(snapshot_, snapshot_.jobs[j], node, 1) > 0)
          holder = static_cast<int>(j);
      }
    }
  }

  // A job that has reserved free resources that this job could have used; -1: none.
  int holder_of(size_t j) const {
    for (size_t n = 0; n < reserved_.size(); ++n) {
      const auto node = static_cast<int>(n);
      if (reserved_[n] >= 0 && free_.fits(static_cast<int>(j), node) > 0) return reserved_[n];
    }
    return -1;
  }

  const Snapshot& snapshot_;
  const double patience_s_;
  NodeKinds kinds_;
  FreeResources free_;
  std::vector<int> reserved_;  // by node: the waiting job that has reserved it, or -1
  int waiting_ = 0;            // number of waiting jobs so far that could run on empty nodes
};

class Fixed : public Policy {
 public:
  explicit Fixed(double patience_s) : patience_s_(patience_s) {}

  Decision decide(const Snapshot& snapshot, uint64_t, const SearchBudget&) override {
    check_snapshot(snapshot);
    return Queue(snapshot, patience_s_).decide();
  }

 private:
  double patience_s_;
};

std::unique_ptr<Policy> make_fixed(const std::map<std::string, double>& options) {
  return std::make_unique<Fixed>(options.at("backfill") > 0 ? options.at("patience") : 0.0);
}

}  // namespace

PolicyInfo fixed_policy() {
  return {"fixed",
          "gives each job the replicas that its user requested, first come, first served, with "
          "backfilling",
          {{"backfill", "flag", 1, 0, 1, "whether a job that fits may overtake one that does not"},
           {"patience", "s", 3600, 0, 1e9,
            "no job overtakes a waiting job that was submitted longer ago than this"}},
          make_fixed,
          /*adapts=*/false};
}

}  // namespace adaptdl
