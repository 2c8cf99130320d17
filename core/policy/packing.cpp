#include "core/policy/packing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "core/base/error.h"

namespace adaptdl {
namespace {

// Replicas on each node but the last.
int share_of(const Configuration& configuration) {
  return (configuration.replicas - 1) / configuration.nodes + 1;
}

bool all_at_most(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

}  // namespace

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
      distributed_(snapshot.nodes.size(), -1),
      groups_(kinds.size()) {
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) join_group(static_cast<int>(n));
}

Packing::Free Packing::free_on(int node) const {
  Free free;
  for (size_t r = 0; r < snapshot_.resources.size(); ++r) {
    free.push_back(free_.free(node, static_cast<int>(r)));
  }
  free.push_back(takes_distributed(node));
  return free;
}

// What a node must have free for the job's share.
Packing::Free Packing::needed_by(int job, const Configuration& configuration) const {
  Free needed;
  for (const int64_t amount : snapshot_.jobs[static_cast<size_t>(job)].request) {
    needed.push_back(amount * share_of(configuration));
  }
  needed.push_back(configuration.nodes > 1);
  return needed;
}

void Packing::leave_group(int node) {
  Groups& groups = groups_[static_cast<size_t>(kinds_.of_node[static_cast<size_t>(node)])];
  const auto group = groups.find(free_on(node));
  group->second.erase(node);
  if (group->second.empty()) groups.erase(group);
}

void Packing::join_group(int node) {
  Groups& groups = groups_[static_cast<size_t>(kinds_.of_node[static_cast<size_t>(node)])];
  groups[free_on(node)].insert(node);
}

// The size of a job's replicas: larger jobs may move smaller ones.
int64_t Packing::size_of(int job, int64_t replicas) const {
  return replicas * std::max<int64_t>(snapshot_.jobs[static_cast<size_t>(job)].request[0], 1);
}

void Packing::take(int job, const NodeList& nodes, bool fixed) {
  const NodeList distinct = each_once(nodes);
  for (const int node : distinct) leave_group(node);
  free_.take(job, nodes);
  nodes_[static_cast<size_t>(job)] = nodes;
  if (distinct.size() > 1) {
    for (const int node : distinct) distributed_[static_cast<size_t>(node)] = job;
  } else if (!fixed) {
    movable_[static_cast<size_t>(nodes.front())].push_back(job);
  }
  for (const int node : distinct) join_group(node);
}

void Packing::drop(int job) {
  NodeList& nodes = nodes_[static_cast<size_t>(job)];
  const NodeList distinct = each_once(nodes);
  for (const int node : distinct) leave_group(node);
  free_.release(job, nodes);
  if (distinct.size() > 1) {
    for (const int node : distinct) distributed_[static_cast<size_t>(node)] = -1;
  } else {
    auto& there = movable_[static_cast<size_t>(distinct.front())];
    there.erase(std::find(there.begin(), there.end(), job));
  }
  for (const int node : distinct) join_group(node);
  const int64_t size = size_of(job, static_cast<int64_t>(nodes.size()));
  std::erase_if(hopeless_, [&](const Hopeless& it) { return it.size <= size; });
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

// The nodes with the fewest free GPUs that can hold the job's share of each node: as many as the
// configuration has, or all if these are fewer.
std::vector<int> Packing::nodes_with_room(int job, const Configuration& configuration) const {
  const Free needed = needed_by(job, configuration);
  const Groups& groups = groups_[static_cast<size_t>(configuration.kind)];
  std::vector<int> found;
  for (auto group = groups.lower_bound(Free{needed[0]}); group != groups.end(); ++group) {
    const auto& [free, members] = *group;
    if (!all_at_most(needed, free)) continue;
    for (const int node : members) {
      found.push_back(node);
      if (found.size() == static_cast<size_t>(configuration.nodes)) return found;
    }
  }
  return found;
}

bool Packing::hopeless(int job, const Configuration& configuration) const {
  const Free needed = needed_by(job, configuration);
  const int64_t size = size_of(job, share_of(configuration));
  return std::any_of(hopeless_.begin(), hopeless_.end(), [&](const Hopeless& it) {
    return it.kind == configuration.kind && it.nodes <= configuration.nodes && size <= it.size &&
           all_at_most(it.needed, needed);
  });
}

void Packing::give_up(int job, const Configuration& configuration) {
  constexpr size_t kMost = 64;
  if (hopeless_.size() == kMost) hopeless_.erase(hopeless_.begin());
  hopeless_.push_back({configuration.kind, configuration.nodes, needed_by(job, configuration),
                       size_of(job, share_of(configuration))});
}

// Other nodes that can hold it once smaller jobs have left them: more than enough to choose from.
std::vector<Packing::Offer> Packing::offers_by_moves(int job, const Configuration& configuration,
                                                     const std::vector<int>& with_room) {
  constexpr size_t kChoice = 200;
  const int share = share_of(configuration);
  const std::set<int> known(with_room.begin(), with_room.end());
  std::vector<Offer> offers;
  const Groups& groups = groups_[static_cast<size_t>(configuration.kind)];
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    if (configuration.nodes > 1 && group->first.back() == 0) continue;
    for (const int node : group->second) {
      if (known.contains(node)) continue;
      Offer offer = {node, leavers(job, node, share), 0, 0, free_.free(node)};
      if (offer.moved.empty()) continue;
      for (const int other : offer.moved) {
        offer.cost += moving_cost(other);
        offer.moved_gpus += size_of(other, static_cast<int64_t>(nodes(other).size()));
      }
      offers.push_back(std::move(offer));
      if (offers.size() >= static_cast<size_t>(configuration.nodes) + kChoice) return offers;
    }
  }
  return offers;
}

// The same share on each node, and the rest on the last one.
void Packing::take_shares(int job, const Configuration& configuration, std::vector<int> nodes) {
  std::sort(nodes.begin(), nodes.end());
  const int share = share_of(configuration);
  NodeList list;
  int left = configuration.replicas;
  for (const int node : nodes) {
    list.insert(list.end(), static_cast<size_t>(std::min(share, left)), node);
    left -= std::min(share, left);
  }
  take(job, list, false);
}

bool Packing::place(int job, const Configuration& configuration) {
  ADAPTDL_CHECK(nodes(job).empty() && configuration.nodes >= 1);
  std::vector<int> found = nodes_with_room(job, configuration);
  if (found.size() < static_cast<size_t>(configuration.nodes)) return false;
  take_shares(job, configuration, std::move(found));
  return true;
}

bool Packing::place_moving(int job, const Configuration& configuration, std::vector<int>& moved) {
  if (place(job, configuration)) return true;
  if (hopeless(job, configuration)) return false;
  std::vector<int> found = nodes_with_room(job, configuration);
  std::vector<Offer> offers = offers_by_moves(job, configuration, found);
  const size_t missing = static_cast<size_t>(configuration.nodes) - found.size();
  if (offers.size() < missing) {
    give_up(job, configuration);
    return false;
  }
  std::sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return std::tuple(a.cost, a.moved.size(), a.moved_gpus, a.spare, a.node) <
           std::tuple(b.cost, b.moved.size(), b.moved_gpus, b.spare, b.node);
  });
  offers.resize(missing);
  for (const Offer& offer : offers) {
    found.push_back(offer.node);
    for (const int other : offer.moved) {
      drop(other);
      moved.push_back(other);
    }
  }
  take_shares(job, configuration, std::move(found));
  return true;
}

}  // namespace adaptdl
