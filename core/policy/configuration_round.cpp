#include "core/policy/configuration_round.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/policy/assignment.h"
#include "core/policy/by_name.h"
#include "core/policy/packing.h"
#include "core/policy/perf_estimate.h"

namespace adaptdl {
namespace {

constexpr int kSettle = 4;       // most further rounds if jobs did not fit where they were placed
constexpr int kTrials = 20'000;  // most placements that are tried in a round to make room

// The goodput of each configuration relative to the smallest one.
std::vector<double> gains_of(std::span<const Configuration> configurations,
                             std::span<GoodputTable> goodput) {
  std::vector<double> gains;
  double least = std::numeric_limits<double>::infinity();
  for (const Configuration& c : configurations) {
    gains.push_back(goodput[static_cast<size_t>(c.kind)].at(c.nodes, c.replicas));
    least = std::min(least, gains.back());
  }
  for (double& gain : gains) gain = least > 0 && std::isfinite(gain) ? gain / least : 1;
  return gains;
}

struct Option {
  Configuration configuration;
  double value = 0;
  double gain = 1;  // goodput / least goodput of the job's configurations
};

class Round {
 public:
  // `before`: the same jobs, with the nodes that they have now.
  Round(const Snapshot& snapshot, const Snapshot& before, Valuation& valuation)
      : snapshot_(snapshot),
        before_(before),
        valuation_(valuation),
        kinds_(snapshot),
        perf_(snapshot, kinds_.names),
        packing_(snapshot, kinds_),
        empty_(snapshot),
        choice_(snapshot.jobs.size(), -1),
        wanted_(snapshot.jobs.size(), -1),
        pinned_(snapshot.jobs.size()),
        held_(snapshot.jobs.size()) {}

  Decision decide(const SearchBudget& budget) {
    keep_pinned();
    measure_nodes();
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) list_options(j);
    Decision decision;
    decision.cut_short = choose(budget);
    const Packing pinned = packing_;
    pack();
    if (!settled_) keep_all_if_as_good(pinned);
    std::vector<bool> runs;
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) runs.push_back(!nodes(j).empty());
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) {
      decision.jobs.push_back({nodes(j), reason(j, runs)});
      decision.objective += value(j, choice_[j]);
    }
    decision.gap = std::max(0.0, decision.objective - bound_);
    return decision;
  }

  // Whether all jobs are placed as the program chose, or keep their nodes.
  bool settled() const { return settled_; }

 private:
  void keep_pinned() {
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) {
      const JobSnapshot& job = snapshot_.jobs[j];
      if (job.preemptible || job.nodes.empty()) continue;
      pinned_[j] = packing_.keep(static_cast<int>(j), job.nodes, true);
    }
  }

  // Groups nodes with equal capacity and equal free resources, to examine each group once.
  void measure_nodes() {
    groups_.resize(kinds_.size());
    for (size_t k = 0; k < kinds_.size(); ++k) {
      std::map<std::vector<int64_t>, Group> groups;
      for (const int node : kinds_.nodes[k]) {
        const auto& capacity = snapshot_.nodes[static_cast<size_t>(node)].capacity;
        std::vector<int64_t> key = capacity;
        for (size_t r = 0; r < capacity.size(); ++r) {
          key.push_back(packing_.free().free(node, static_cast<int>(r)));
        }
        key.push_back(packing_.takes_distributed(node));
        Group& group = groups[key];
        group.node = node;
        ++group.count;
      }
      for (const auto& [key, group] : groups) groups_[k].push_back(group);
    }
  }

  static int fits(const FreeResources& free, size_t j, int node) {
    return static_cast<int>(
        std::min<int64_t>(free.fits(static_cast<int>(j), node), std::numeric_limits<int>::max()));
  }

  KindRoom room_of(size_t j, size_t kind) const {
    KindRoom room;
    for (const Group& group : groups_[kind]) {
      room.per_node = std::max(room.per_node, fits(empty_, j, group.node));
    }
    std::map<int, int, std::greater<>> nodes;  // by the replicas that they can hold
    for (const Group& group : groups_[kind]) {
      const int replicas = fits(packing_.free(), j, group.node);
      if (replicas < 1) continue;
      room.single = std::max(room.single, replicas);
      if (replicas >= room.per_node) room.whole_nodes += group.count;
      if (packing_.takes_distributed(group.node)) nodes[replicas] += group.count;
    }
    for (const auto& [replicas, count] : nodes) room.shares.push_back({count, replicas});
    return room;
  }

  // The configuration of the present allocation, if the job may keep it.
  std::optional<Configuration> present_of(const JobSnapshot& job) const {
    const auto replicas = static_cast<int>(job.nodes.size());
    if (replicas == 0 || replicas < job.min_replicas || replicas > job.max_replicas) {
      return std::nullopt;
    }
    const int kind = kinds_.of_node[static_cast<size_t>(job.nodes.front())];
    for (const int node : job.nodes) {
      if (kinds_.of_node[static_cast<size_t>(node)] != kind) return std::nullopt;
    }
    return Configuration{kind, distinct_nodes(job.nodes), replicas};
  }

  void list_options(size_t j) {
    const JobSnapshot& job = snapshot_.jobs[j];
    std::vector<KindRoom> rooms;
    std::vector<GoodputTable> goodput;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      rooms.push_back(room_of(j, k));
      goodput.push_back(
          perf_.table(job.hints, k, assumed_power(job), valuation_.largest_batch(job)));
    }
    uneven_.push_back(std::ranges::any_of(rooms, [&job](const KindRoom& room) {
      int64_t replicas = 0;
      for (const auto& [nodes, each] : room.shares) replicas += int64_t{nodes} * each;
      return replicas > 0 && replicas >= job.min_replicas;
    }));
    const std::optional<Configuration> present = present_of(job);
    held_[j] = job.settling && present && !pinned_[j];
    std::vector<Configuration> configurations =
        pinned_[j] || held_[j]
            ? std::vector<Configuration>{}
            : list_configurations(rooms, std::max(job.min_replicas, 1), valuation_.limit(job));
    if (present &&
        std::find(configurations.begin(), configurations.end(), *present) == configurations.end()) {
      configurations.push_back(*present);
    }
    const JobValues values = valuation_.values(j, configurations, goodput, present);
    ADAPTDL_CHECK(values.configurations.size() == configurations.size());
    const std::vector<double> gains = gains_of(configurations, goodput);
    std::vector<Option> options;
    for (size_t c = 0; c < configurations.size(); ++c) {
      if (!std::isfinite(values.configurations[c])) continue;
      options.push_back({configurations[c], values.configurations[c], gains[c]});
      // A tie goes to the first option, so the present one comes first.
      if (configurations[c] == present) std::swap(options.front(), options.back());
    }
    unassigned_.push_back(values.unassigned);
    moving_.push_back(values.moving);
    present_.push_back(present && !options.empty() && options[0].configuration == *present ? 0
                                                                                           : -1);
    options_of_.push_back(std::move(options));
    if (pinned_[j] || held_[j]) choice_[j] = present_[j];
  }

  // Solves the integer program; whether the deadline cut it short.
  bool choose(const SearchBudget& budget) {
    AssignmentProblem problem;
    for (const auto& nodes : kinds_.nodes) {
      int64_t gpus = 0;
      for (const int node : nodes) gpus += packing_.free().free(node);
      problem.capacity.push_back(gpus);
    }
    std::vector<size_t> jobs;
    std::vector<int> present;
    std::vector<int64_t> used(kinds_.size());
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) {
      if (pinned_[j] || (held_[j] && choice_[j] == 0)) bound_ += value(j, choice_[j]);
      if (pinned_[j]) continue;
      std::vector<AssignmentOption> options;
      for (const Option& option : options_of_[j]) {
        options.push_back({option.configuration.kind,
                           option.configuration.replicas * snapshot_.jobs[j].request[0],
                           option.value - unassigned_[j]});
      }
      if (held_[j] && choice_[j] == 0) {
        int64_t& left = problem.capacity[static_cast<size_t>(options[0].kind)];
        left = std::max<int64_t>(0, left - options[0].gpus);
        continue;
      }
      if (present_[j] == 0) used[static_cast<size_t>(options[0].kind)] += options[0].gpus;
      bound_ += unassigned_[j];
      jobs.push_back(j);
      present.push_back(present_[j]);
      problem.jobs.push_back(std::move(options));
    }
    Assignment answer = solve_assignment(problem, budget);
    bound_ += answer.bound;
    bool stay = true;
    for (size_t k = 0; k < used.size(); ++k) stay = stay && used[k] <= problem.capacity[k];
    const double gain = stay ? assignment_objective(problem, present) - answer.objective : 1;
    if (gain <= 1e-12 * std::abs(answer.objective)) answer.choice = present;
    for (size_t i = 0; i < jobs.size(); ++i) choice_[jobs[i]] = answer.choice[i];
    wanted_ = choice_;
    return answer.cut_short;
  }

  void pack() {
    packing_.set_moving_costs(moving_);
    std::vector<int> waiting;
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) {
      const auto job = static_cast<int>(j);
      if (choice_[j] < 0 || pinned_[j]) continue;
      const bool stays = choice_[j] == present_[j] && packing_.keep(job, snapshot_.jobs[j].nodes);
      if (!stays) waiting.push_back(job);
    }
    // The largest first. A moved job is smaller than the job that replaces it, so this ends.
    const auto rank = [&](int job) {
      const Configuration& c = chosen(job);
      const int64_t gpus =
          std::max<int64_t>(snapshot_.jobs[static_cast<size_t>(job)].request[0], 1);
      return std::tuple(gpus * ((c.replicas - 1) / c.nodes + 1), c.nodes, -job);
    };
    std::priority_queue<std::pair<std::tuple<int64_t, int, int>, int>> queue;
    for (const int job : waiting) queue.push({rank(job), job});
    std::set<int> homeless;
    while (!queue.empty()) {
      const int job = queue.top().second;
      queue.pop();
      std::vector<int> moved;
      if (!packing_.place_moving(job, chosen(job), moved)) homeless.insert(job);
      for (const int other : moved) queue.push({rank(other), other});
    }
    for (const int job : homeless) choice_[static_cast<size_t>(job)] = place_best(job);
    trials_ = kTrials;
    for (const int job : homeless) {
      if (choice_[static_cast<size_t>(job)] < 0) make_room(job);
    }
    settled_ = homeless.empty();
  }

  std::vector<int> best_first(size_t j) const {
    std::vector<int> order(options_of_[j].size());
    for (size_t o = 0; o < order.size(); ++o) order[o] = static_cast<int>(o);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return value(j, a) < value(j, b); });
    return order;
  }

  bool place(int job, int option) {
    const auto j = static_cast<size_t>(job);
    --trials_;
    return option == present_[j]
               ? packing_.keep(job, snapshot_.jobs[j].nodes)
               : packing_.place(job, options_of_[j][static_cast<size_t>(option)].configuration);
  }

  // The best option that fits is placed, and returned; -1 if none fits.
  int place_best(int job) {
    for (const int option : best_first(static_cast<size_t>(job))) {
      if (place(job, option)) return option;
    }
    return -1;
  }

  // For a job that is to run, but for which there is no place: the other job, with less or no room,
  // with which the sum of the values is least.
  void make_room(int job) {
    const auto j = static_cast<size_t>(job);
    const std::vector<int> order = best_first(j);
    int best_other = -1, best_option = -1;
    double most = 0;
    for (size_t o = 0; o < options_of_.size() && trials_ > 0; ++o) {
      if (choice_[o] < 0 || pinned_[o] || held_[o]) continue;
      const auto other = static_cast<int>(o);
      const NodeList nodes = packing_.nodes(other);
      const double present = value(o, choice_[o]) + unassigned_[j];
      packing_.drop(other);
      for (const int option : order) {
        if (trials_ <= 0) break;
        if (!place(job, option)) continue;
        const int left = place_best(other);
        const double gain = present - value(j, option) - value(o, left);
        if (gain > most + 1e-12 * std::abs(present)) {
          std::tie(best_other, best_option, most) = std::tuple(other, option, gain);
        }
        if (left >= 0) packing_.drop(other);
        packing_.drop(job);
      }
      ADAPTDL_CHECK(packing_.keep(other, nodes));
    }
    if (best_other < 0) return;
    packing_.drop(best_other);
    ADAPTDL_CHECK(place(job, best_option));
    choice_[j] = best_option;
    choice_[static_cast<size_t>(best_other)] = place_best(best_other);
  }

  // If some jobs got other options than chosen, the answer may be worse than the present
  // allocation; and two answers of the same value would alternate forever.
  void keep_all_if_as_good(Packing packing) {
    double present = 0, packed = 0;
    for (size_t j = 0; j < snapshot_.jobs.size(); ++j) {
      const NodeList& nodes = snapshot_.jobs[j].nodes;
      const bool to_keep = !nodes.empty() && !pinned_[j];
      if (to_keep && (present_[j] < 0 || !packing.keep(static_cast<int>(j), nodes))) return;
      present += value(j, present_[j]);
      packed += value(j, choice_[j]);
    }
    if (present - packed > 1e-12 * std::abs(packed)) return;
    choice_ = present_;
    all_stay_ = settled_ = true;
  }

  const NodeList& nodes(size_t j) const {
    return all_stay_ ? snapshot_.jobs[j].nodes : packing_.nodes(static_cast<int>(j));
  }

  const Configuration& chosen(int job) const {
    const auto j = static_cast<size_t>(job);
    return options_of_[j][static_cast<size_t>(choice_[j])].configuration;
  }

  double value(size_t j, int option) const {
    return option < 0 ? unassigned_[j] : options_of_[j][static_cast<size_t>(option)].value;
  }

  std::string describe(const Configuration& c) const {
    const std::string& kind = kinds_.names[static_cast<size_t>(c.kind)];
    return fmt::format("{} replica{} on {} {}node{}", c.replicas, c.replicas == 1 ? "" : "s",
                       c.nodes, kind.empty() ? "" : kind + " ", c.nodes == 1 ? "" : "s");
  }

  // The resources of which no node has enough for one replica, and the conditions that none meets.
  std::string lacking(const JobSnapshot& job) const {
    std::vector<std::string_view> names, conditions;
    for (size_t r = 0; r < snapshot_.resources.size(); ++r) {
      const bool somewhere =
          std::any_of(snapshot_.nodes.begin(), snapshot_.nodes.end(),
                      [&](const NodeSnapshot& node) { return node.capacity[r] >= job.request[r]; });
      const std::string& name = snapshot_.resources[r];
      if (!somewhere) (is_condition(name) ? conditions : names).push_back(name);
    }
    std::string text;
    if (!names.empty()) {
      text = fmt::format("; no node has enough {} for one of them", fmt::join(names, ", "));
    }
    if (!conditions.empty()) {
      text += fmt::format("; no node meets {}", fmt::join(conditions, ", nor "));
    }
    return text;
  }

  // The resource, or the condition, besides the first one, of which too little is free where the
  // first one is; empty if there is none.
  std::string_view scarce(const JobSnapshot& job, const Configuration& c) const {
    for (size_t r = 1; r < snapshot_.resources.size(); ++r) {
      if (job.request[r] == 0) continue;
      int64_t fit = 0;
      for (const int node : kinds_.nodes[static_cast<size_t>(c.kind)]) {
        const auto replicas = [&](size_t resource) {
          const int64_t each = std::max<int64_t>(job.request[resource], 1);
          return packing_.free().free(node, static_cast<int>(resource)) / each;
        };
        fit += job.request[0] == 0 ? replicas(r) : std::min(replicas(0), replicas(r));
      }
      if (fit < c.replicas) return snapshot_.resources[r];
    }
    return {};
  }

  // Why a job waits that is to run.
  std::string no_place(const JobSnapshot& job, const Configuration& wanted) const {
    const std::string_view name = scarce(job, wanted);
    if (name.empty()) {
      return fmt::format("the free GPUs are on too many nodes for {}", describe(wanted));
    }
    return is_condition(name) ? fmt::format("too little is free for {} on nodes that meet {}",
                                            describe(wanted), name)
                              : fmt::format("too little {} is free for {}", name, describe(wanted));
  }

  std::string reason(size_t j, const std::vector<bool>& runs) const {
    const JobSnapshot& job = before_.jobs[j];
    const NodeList& nodes = this->nodes(j);
    if (pinned_[j]) return "it keeps its allocation because it is not preemptible";
    if (nodes.empty()) {
      if (options_of_[j].empty()) {
        return job.nodes.empty()
                   ? fmt::format("it waits because the nodes cannot hold {} of its replicas{}{}",
                                 std::max(job.min_replicas, 1),
                                 uneven_[j] ? " in equal shares" : "", lacking(job))
                   : "it stops because its nodes are gone and it has just been restarted";
      }
      const std::string verb = job.nodes.empty() ? "it waits" : "it stops for now";
      if (wanted_[j] < 0) {
        return fmt::format("{} because {}", verb, valuation_.why_waiting(j, runs));
      }
      const auto& option = options_of_[j][static_cast<size_t>(wanted_[j])];
      return fmt::format("{} because {}", verb, no_place(job, option.configuration));
    }
    const Option& option = options_of_[j][static_cast<size_t>(choice_[j])];
    std::string text = describe(option.configuration);
    if (is_silent(job)) {
      text += ", though it does not tell its speed";
    } else if (option.gain > 1) {
      text +=
          fmt::format(", with {:.3g} times the goodput of its slowest configuration", option.gain);
    }
    if (held_[j]) text += ", as its last change is not finished";
    if (nodes == job.nodes) return "it keeps " + text;
    return (job.nodes.empty()                         ? "it starts with "
            : present_of(job) == option.configuration ? "it moves to other nodes and keeps "
                                                      : "it changes to ") +
           text;
  }

  struct Group {
    int node = 0;  // one of the nodes
    int count = 0;
  };

  const Snapshot& snapshot_;
  const Snapshot& before_;
  Valuation& valuation_;
  NodeKinds kinds_;
  PerfEstimate perf_;
  Packing packing_;
  FreeResources empty_;                          // the nodes without any jobs
  std::vector<std::vector<Group>> groups_;       // by kind
  std::vector<std::vector<Option>> options_of_;  // by job
  std::vector<bool> uneven_;                     // by job: a kind holds its least, in some shares
  std::vector<double> unassigned_;               // by job: value without allocation
  std::vector<double> moving_;                   // by job: lost by a move
  std::vector<int> present_;                     // by job: 0 if its first option is the present one
  std::vector<int> choice_;                      // by job: an option, or -1
  std::vector<int> wanted_;                      // the integer program's choice
  std::vector<bool> pinned_;                     // not preemptible
  std::vector<bool> held_;                       // settling: may only move
  double bound_ = 0;                             // of the sum of values
  bool settled_ = true, all_stay_ = false;
  int trials_ = 0;  // left, of kTrials
};

Decision decide_in_order(const Snapshot& snapshot, const MakeValuation& make,
                         const SearchBudget& budget) {
  const auto valuation = make(snapshot);
  Round round(snapshot, snapshot, *valuation);
  Decision decision = round.decide(budget);
  bool settled = round.settled();
  // The next round would try again to place jobs that did not fit, and move jobs although nothing
  // has changed. So try it now, starting from this round's answer.
  for (int again = 0; again < kSettle && !settled && !decision.cut_short; ++again) {
    Snapshot next = snapshot;
    for (size_t j = 0; j < next.jobs.size(); ++j) next.jobs[j].nodes = decision.jobs[j].nodes;
    const auto valued_next = make(next);
    Round following(next, snapshot, *valued_next);
    Decision better = following.decide(budget);
    settled = following.settled();
    const bool same =
        std::equal(better.jobs.begin(), better.jobs.end(), decision.jobs.begin(),
                   [](const JobDecision& a, const JobDecision& b) { return a.nodes == b.nodes; });
    if (same) break;
    decision = std::move(better);
  }
  return decision;
}

}  // namespace

Decision decide_by_configuration(const Snapshot& snapshot, const MakeValuation& make,
                                 const SearchBudget& budget) {
  return decide_by_name(
      snapshot, [&](const Snapshot& ordered) { return decide_in_order(ordered, make, budget); });
}

}  // namespace adaptdl
