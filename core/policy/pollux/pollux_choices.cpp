#include "core/policy/pollux/pollux_choices.h"

#include <algorithm>
#include <cmath>

namespace adaptdl {
namespace {

constexpr int kMostSizes = 1600;  // of all jobs together, on several nodes, so that a round takes
                                  // milliseconds; the search tries sizes between them
constexpr int kLeastSizes = 10;   // at least so many for each job
constexpr int kMostOneNodeSizes = 16;

// Multiples of `step` in [low, high] and high itself; if these are more than `most`, about `most`
// in geometric spacing.
std::vector<int> spaced_sizes(int low, int high, int step, int most) {
  std::vector<int> sizes;
  double ratio = 1;
  if ((high - low) / step + 1 > most) {
    ratio = std::pow(static_cast<double>(high) / low, 1.0 / std::max(most - 1, 1));
  }
  for (double at = low; at <= high;) {
    const int size = std::min((static_cast<int>(at) + step - 1) / step * step, high);
    if (sizes.empty() || size > sizes.back()) sizes.push_back(size);
    at = std::max(at * ratio, static_cast<double>(size + 1));
  }
  return sizes;
}

}  // namespace

PolluxProblem::PolluxProblem(const Snapshot& s, const PolluxOptions& options)
    : snapshot(s),
      objective(s, options),
      pinned(s, objective, options.avoid_interference),
      movable(s.jobs.size(), 1),
      present(s.jobs.size()),
      least(s.jobs.size()),
      most(s.jobs.size()),
      idle_value(s.jobs.size(), objective.value(0)),
      choices(s.jobs.size()),
      totals_(static_cast<size_t>(objective.kinds()), std::vector<double>(s.resources.size())) {
  for (size_t j = 0; j < s.jobs.size(); ++j) {
    if ((s.jobs[j].preemptible && !s.jobs[j].settling) || s.jobs[j].nodes.empty()) continue;
    movable[j] = 0;
    present[j] = row_of(s.jobs[j].nodes);
    pinned.put(static_cast<int>(j), present[j]);
  }
  for (int kind = 0; kind < objective.kinds(); ++kind) {
    auto& total = totals_[static_cast<size_t>(kind)];
    double spannable = 0;
    for (const int node : pinned.nodes(kind)) {
      for (size_t r = 0; r < total.size(); ++r) {
        total[r] += static_cast<double>(pinned.free(node, static_cast<int>(r)));
      }
      spannable += pinned.free(node, 0) > 0 && pinned.spans(node);
    }
    gpus.push_back(total[0]);
    nodes.push_back(options.avoid_interference ? spannable : HUGE_VAL);
  }
  for (size_t j = 0; j < s.jobs.size(); ++j) {
    if (!movable[j]) continue;
    set_bounds(static_cast<int>(j));
    list_choices(static_cast<int>(j));
  }
}

double PolluxProblem::value(int job, int kind, bool on_several, int replicas) {
  return objective.value(objective.speedup(job, kind, on_several, replicas) *
                         objective.change_factor(job));
}

double PolluxProblem::value(int job, const PolluxRow& row) {
  const auto j = static_cast<size_t>(job);
  if (row.empty()) return idle_value[j];
  const int kind = objective.kind_of(row.front().node);
  const double speedup = objective.speedup(job, kind, row.size() > 1, replicas_of(row));
  return objective.value(row == present[j] ? speedup : speedup * objective.change_factor(job));
}

double PolluxProblem::weight(int job, int kind) const {
  const auto& request = snapshot.jobs[static_cast<size_t>(job)].request;
  double weight = static_cast<double>(request[0]);
  for (size_t r = 1; r < request.size(); ++r) {
    const double total = totals_[static_cast<size_t>(kind)][r];
    if (total > 0) {
      weight = std::max(
          weight, static_cast<double>(request[r]) * totals_[static_cast<size_t>(kind)][0] / total);
    }
  }
  return weight;
}

void PolluxProblem::set_bounds(int job) {
  const auto j = static_cast<size_t>(job);
  const JobSnapshot& it = snapshot.jobs[j];
  least[j] = std::max(it.min_replicas, 1);
  most[j] = pollux_limit(it);
  PolluxRow row = row_of(it.nodes);
  const int replicas = replicas_of(row);
  bool allowed = replicas >= least[j] && replicas <= most[j] && pinned.can_put(job, row);
  for (const NodeShare& share : row) {
    allowed = allowed && objective.kind_of(share.node) == objective.kind_of(row.front().node);
  }
  if (allowed) present[j] = std::move(row);
}

void PolluxProblem::list_choices(int job) {
  const auto j = static_cast<size_t>(job);
  auto& list = choices[j];
  list.push_back({.value = idle_value[j]});
  if (const PolluxRow& row = present[j]; !row.empty()) {
    PolluxChoice keep{.kind = objective.kind_of(row.front().node), .keep = true};
    keep.replicas = replicas_of(row);
    keep.spanned = row.size() > 1 ? static_cast<int>(row.size()) : 0;
    keep.gpus = weight(job, keep.kind) * keep.replicas;
    keep.value = value(job, row);
    list.push_back(keep);
  }
  if (objective.change_factor(job) <= 0) return;  // any change is worth as little as waiting
  const int jobs = static_cast<int>(choices.size());
  for (int kind = 0; kind < objective.kinds(); ++kind) {
    const auto room = pinned.room(job, kind);
    const double one = weight(job, kind);
    const auto add = [&](int replicas, int spanned) {
      list.push_back({kind, replicas, spanned, false, one * replicas,
                      value(job, kind, spanned > 0, replicas)});
    };
    const int on_one = std::min(most[j], room.most_on_one);
    if (on_one >= least[j]) {
      for (const int k : spaced_sizes(least[j], on_one, 1, kMostOneNodeSizes)) add(k, 0);
    }
    if (room.spanned_nodes < 2) continue;
    const int on_several = static_cast<int>(std::min<int64_t>(most[j], room.on_several));
    const int first = std::max(2, least[j]), sizes = std::max(kMostSizes / jobs, kLeastSizes);
    if (first > on_several) continue;
    const bool all = on_several - first < sizes;
    const int node = room.largest_spanned;
    for (const int k : all ? spaced_sizes(first, on_several, 1, sizes)
                           : spaced_sizes(std::max(first, node + 1), on_several, node, sizes)) {
      add(k, std::max(2, (k + node - 1) / node));
    }
  }
}

}  // namespace adaptdl
