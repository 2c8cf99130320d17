#include "core/policy/packing.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/error.h"

namespace adaptdl {

NodeKinds::NodeKinds(const Snapshot& snapshot) {
  std::map<std::string, std::vector<int>> by_name;
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
    by_name[snapshot.nodes[n].accelerator].push_back(static_cast<int>(n));
  }
  of_node.resize(snapshot.nodes.size());
  for (auto& [name, members] : by_name) {
    for (const int node : members) of_node[static_cast<size_t>(node)] = static_cast<int>(size());
    names.push_back(name);
    nodes.push_back(std::move(members));
  }
}

Packing::Packing(const Snapshot& snapshot, const NodeKinds& kinds)
    : snapshot_(snapshot),
      kinds_(kinds),
      free_(snapshot),
      nodes_(snapshot.jobs.size()),
      moving_costs_(snapshot.jobs.size(), 1),
      movable_(snapshot.nodes.size()),
      distributed_(snapshot.nodes.size(), -1) {}

// The size of a job's replicas: larger jobs may move smaller ones.
int64_t Packing::size_of(int job, int64_t replicas) const {
  return replicas * std::max<int64_t>(snapshot_.jobs[static_cast<size_t>(job)].request[0], 1);
}

void Packing::take(int job, const NodeList& nodes, bool fixed) {
  free_.take(job, nodes);
  nodes_[static_cast<size_t>(job)] = nodes;
  const bool several = distinct_nodes(nodes) > 1;
  for (const int node : nodes) {
    if (several) distributed_[static_cast<size_t>(node)] = job;
  }
  if (!several && !fixed) movable_[static_cast<size_t>(nodes.front())].push_back(job);
}

void Packing::drop(int job) {
  NodeList& nodes = nodes_[static_cast<size_t>(job)];
  auto& there = movable_[static_cast<size_t>(nodes.front())];
  there.erase(std::find(there.begin(), there.end(), job));
  free_.release(job, nodes);
  nodes.clear();
}

bool Packing::keep(int job, const NodeList& nodes, bool fixed) {
  ADAPTDL_CHECK(!nodes.empty() && this->nodes(job).empty());
  if (!free_.can_take(job, nodes)) return false;
  if (!fixed && distinct_nodes(nodes) > 1) {
    for (const int node : nodes) {
      if (distributed_[static_cast<size_t>(node)] >= 0) return false;
    }
  }
  take(job, nodes, fixed);
  return true;
}

bool Packing::candidate(int node, const Configuration& configuration) const {
  return configuration.nodes == 1 || distributed_[static_cast<size_t>(node)] < 0;
}

double Packing::moving_cost(int job) const {
  const auto j = static_cast<size_t>(job);
  // A job that was placed here in this round loses nothing by a move.
  return nodes(job) == snapshot_.jobs[j].nodes ? moving_costs_[j] : 0;
}

// The smaller jobs that must leave the node so that these replicas fit: those that lose least, as
// few as possible. Does not move them.
std::vector<int> Packing::leavers(int job, int node, int replicas) {
  std::vector<int> smaller;
  for (const int other : movable_[static_cast<size_t>(node)]) {
    if (size_of(other, static_cast<int64_t>(nodes(other).size())) < size_of(job, replicas)) {
      smaller.push_back(other);
    }
  }
  const auto gpus = [&](int other) {
    return size_of(other, static_cast<int64_t>(nodes(other).size()));
  };
  std::stable_sort(smaller.begin(), smaller.end(), [&](int a, int b) {
    return std::tuple(moving_cost(a), -gpus(a)) < std::tuple(moving_cost(b), -gpus(b));
  });
  size_t count = 0;
  for (; count < smaller.size() && free_.fits(job, node) < replicas; ++count) {
    free_.release(smaller[count], nodes(smaller[count]));
  }
  std::vector<int> leaving;
  const bool enough = free_.fits(job, node) >= replicas;
  for (size_t i = count; i-- > 0;) {  // the last ones may have made the first ones unnecessary
    free_.take(smaller[i], nodes(smaller[i]));
    if (!enough || free_.fits(job, node) >= replicas) continue;
    free_.release(smaller[i], nodes(smaller[i]));
    leaving.push_back(smaller[i]);
  }
  for (const int other : leaving) free_.take(other, nodes(other));
  return leaving;
}

bool Packing::choose(int job, const Configuration& configuration, bool moving,
                     std::vector<int>* moved) {
  ADAPTDL_CHECK(nodes(job).empty() && configuration.nodes >= 1);
  const int share = (configuration.replicas - 1) / configuration.nodes + 1;
  std::vector<Offer> offers;
  for (const int node : kinds_.nodes[static_cast<size_t>(configuration.kind)]) {
    if (!candidate(node, configuration)) continue;
    Offer offer = {node, {}, 0, 0, free_.free(node)};
    if (free_.fits(job, node) < share) {
      if (!moving) continue;
      offer.moved = leavers(job, node, share);
      if (offer.moved.empty()) continue;
      for (const int other : offer.moved) {
        offer.cost += moving_cost(other);
        offer.moved_gpus += size_of(other, static_cast<int64_t>(nodes(other).size()));
      }
    }
    offers.push_back(std::move(offer));
  }
  const auto wanted = static_cast<size_t>(configuration.nodes);
  if (offers.size() < wanted) return false;
  std::stable_sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return std::tuple(a.cost, a.moved.size(), a.moved_gpus, a.spare) <
           std::tuple(b.cost, b.moved.size(), b.moved_gpus, b.spare);
  });
  offers.resize(wanted);
  std::sort(offers.begin(), offers.end(),
            [](const Offer& a, const Offer& b) { return a.node < b.node; });
  NodeList chosen;
  int left = configuration.replicas;
  for (const Offer& offer : offers) {
    for (const int other : offer.moved) {
      drop(other);
      moved->push_back(other);
    }
    chosen.insert(chosen.end(), static_cast<size_t>(std::min(share, left)), offer.node);
    left -= std::min(share, left);
  }
  take(job, chosen, false);
  return true;
}

bool Packing::place(int job, const Configuration& configuration) {
  return choose(job, configuration, false, nullptr);
}

bool Packing::place_moving(int job, const Configuration& configuration, std::vector<int>& moved) {
  return place(job, configuration) || choose(job, configuration, true, &moved);
}

}  // namespace adaptdl
