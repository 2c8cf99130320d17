#include "core/policy/pollux/pollux_why.h"

#include <algorithm>
#include <fmt/format.h>

namespace adaptdl {
namespace {

std::string counted(int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "8 GPUs", or "8 replicas" if the cluster has no accelerators.
std::string amount(const PolluxProblem& problem, int job, int replicas) {
  const int64_t each = problem.snapshot.jobs[static_cast<size_t>(job)].request[0];
  const std::string& name = problem.snapshot.resources[0];
  const bool gpus = name.find("gpu") != std::string::npos && each > 0;
  return gpus ? counted(replicas * each, "GPU") : counted(replicas, "replica");
}

// Whether the job may not have more replicas only because it has not measured more.
bool unmeasured(const JobSnapshot& job, int replicas) {
  if (replicas < pollux_limit(job)) return false;
  JobSnapshot measured = job;
  measured.hints.max_profiled_replicas = job.max_replicas;
  return pollux_limit(measured) > replicas;
}

std::string why_waits(const PolluxProblem& problem, int job) {
  const auto j = static_cast<size_t>(job);
  const int least = problem.least[j];
  bool room = false;
  for (int kind = 0; kind < problem.objective.kinds(); ++kind) {
    const auto most = problem.pinned.room(job, kind);
    room =
        room || most.most_on_one >= least || (most.on_several >= least && most.spanned_nodes > 1);
  }
  if (!room) {
    return fmt::format("it waits because it needs at least {}, which the nodes cannot provide",
                       amount(problem, job, least));
  }
  if (problem.objective.change_factor(job) <= 0) {
    return "it waits because nothing is free, and it is too young or has restarted too often to "
           "preempt other jobs";
  }
  return "it waits because other jobs gain more from every GPU";
}

}  // namespace

std::string why_row(PolluxProblem& problem, int job, const PolluxRow& row) {
  const auto j = static_cast<size_t>(job);
  const JobSnapshot& it = problem.snapshot.jobs[j];
  if (row.empty()) return why_waits(problem, job);
  const int replicas = replicas_of(row), kind = problem.objective.kind_of(row.front().node);
  const std::string have = amount(problem, job, replicas);
  if (!problem.movable[j]) {
    return fmt::format(
        "it keeps {} because {}", have,
        it.preemptible ? "its last change is not finished" : "it is not preemptible");
  }
  if (unmeasured(it, replicas)) {
    return fmt::format("it is limited to {} until it has measured itself with more",
                       counted(replicas, "replica"));
  }
  const double speedup = problem.objective.speedup(job, kind, row.size() > 1, replicas);
  const bool keeps = row == problem.present[j];
  if (is_silent(it)) {
    return fmt::format("it {} {} on {}, though it does not tell its speed",
                       keeps ? "keeps" : "gets", have,
                       counted(static_cast<int64_t>(row.size()), "node"));
  }
  if (keeps && problem.objective.change_factor(job) < 1) {
    // Would it gain by another size if changes were free?
    const bool better = std::any_of(
        problem.choices[j].begin(), problem.choices[j].end(), [&](const PolluxChoice& other) {
          return other.replicas > 0 && other.replicas <= replicas && !other.keep &&
                 problem.objective.speedup(job, other.kind, other.spanned > 0, other.replicas) >
                     speedup * (1 + 1e-9);
        });
    if (better)
      return fmt::format("it keeps {} because a move would cost more than it gains", have);
  }
  return fmt::format("it {} {} on {}, with {:.1f} times the goodput of its fair share",
                     keeps ? "keeps" : "gets", have,
                     counted(static_cast<int64_t>(row.size()), "node"), speedup);
}

}  // namespace adaptdl
