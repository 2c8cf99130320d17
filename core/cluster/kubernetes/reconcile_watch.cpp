// A group whose pods are as allocated, or nearly so.

#include <algorithm>

#include "core/base/error.h"
#include "core/cluster/kubernetes/reconciler.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kUnschedulable = 60;  // s that no room may be left, as while other pods still stop

bool started(const PodFacts& pod) {
  return pod.ready || pod.end != PodEnd::none;
}

}  // namespace

// Its launcher lives. What the others lack or have too much is mended beside those that train.
void Reconciler::watch_live() {
  if (deciding_.empty() && cluster_.expects_pods) return look_again(kTrouble);
  if (status_.allocation.empty()) return stop("its allocation has changed");
  const LiveGroup fit = fit_live_group(group_, status_.allocation);
  if (!fit.over.empty()) return stop(fit.over);
  const int replicas = static_cast<int>(status_.allocation.size());
  if (status_.replicas != replicas) {
    const int before = status_.replicas;
    count_service();
    event(false, "Rescaling", fmt::format("replicas {} -> {}", before, replicas));
  }
  watch_group();
  if (status_.phase == phase_name(JobPhase::running)) {
    // What kept newcomers from being made stands until they are.
    if (!fit.create.empty() && is_refusal(job_.status.reason)) {
      status_.reason = job_.status.reason;
      status_.message = job_.status.message;
      status_.retry_delay_s = job_.status.retry_delay_s;
    }
    watch_newcomers();
  }
  for (const PodFacts* pod : fit.remove) remove(*pod);
  if (fit.create.empty() || status_.phase == phase_name(JobPhase::stopping)) return;
  const double wait_s = std::max(fit.failed_s + kSettle, status_.retry_s.value_or(0));
  if (cluster_.expects_pods) {
    look_again(kTrouble);
  } else if (wait_s > cluster_.now_s) {
    look_again(wait_s - cluster_.now_s);
  } else {
    decision_.create = fit.create;
  }
}

// Who does not start beside those that train holds nobody up; without room on its node it goes.
// Of several the one with the smallest rank is told of.
void Reconciler::watch_newcomers() {
  const PodFacts* told = nullptr;
  for (const PodFacts* pod : group_) {
    if (started(*pod) || pod->deleting) continue;
    const double waited = cluster_.now_s - pod->created_s;
    look_at(waited, {kTrouble, kUnschedulable});
    if (waited < kTrouble || pod->reason.empty()) continue;
    if (told == nullptr || pod->rank < told->rank) told = pod;
    if (pod->reason != reason::kUnschedulable || waited < kUnschedulable) continue;
    // The last one: the first is the launcher's.
    const auto place = std::find(status_.allocation.rbegin(), status_.allocation.rend(), pod->node);
    if (place != status_.allocation.rend()) status_.allocation.erase(std::next(place).base());
    refused_by(*pod);
    remove(*pod);
  }
  if (told == nullptr || !status_.reason.empty()) return;
  status_.reason = told->reason;
  status_.message = trouble_of(*told);
  if (job_.status.reason != told->reason) event(true, told->reason, status_.message);
}

// A node on which others of the group run is none that refuses the job.
void Reconciler::refused_by(const PodFacts& pod) {
  const bool runs_there = std::any_of(group_.begin(), group_.end(), [&](const PodFacts* other) {
    return other->node == pod.node && started(*other) && !other->deleting;
  });
  if (!runs_there) decision_.refused_by.push_back(pod.node);
}

std::string Reconciler::trouble_of(const PodFacts& pod) {
  return fmt::format("replica {} on {}{}{}", pod.rank, pod.node, pod.message.empty() ? "" : ": ",
                     pod.message);
}

// Its pods are as allocated, and none has ended badly.
void Reconciler::watch_group() {
  status_.replicas = static_cast<int>(status_.allocation.size());
  status_.ready = static_cast<int>(
      std::count_if(group_.begin(), group_.end(), [](const PodFacts* pod) { return pod->ready; }));
  const bool all = std::all_of(deciding_.begin(), deciding_.end(),
                               [](const PodFacts* pod) { return started(*pod); });
  if (all || status_.phase == phase_name(JobPhase::running)) {
    if (status_.phase != phase_name(JobPhase::running)) {
      event(false, "Running", fmt::format("{} replicas", status_.replicas));
    }
    status_.phase = phase_name(JobPhase::running);
    status_.reason.clear();
    status_.message.clear();
    status_.retry_delay_s.reset();
    return;
  }
  status_.phase = phase_name(JobPhase::starting);
  const double waited = cluster_.now_s - status_.group_started_s.value_or(cluster_.now_s);
  const auto troubled = std::find_if(group_.begin(), group_.end(), [](const PodFacts* pod) {
    return !started(*pod) && !pod->reason.empty();
  });
  if (troubled != group_.end()) {
    const PodFacts& pod = **troubled;
    const std::string what = trouble_of(pod);
    if (pod.reason == reason::kUnschedulable && waited >= kUnschedulable) {
      // The node has no room after all, whatever the allocator thought: it is to look again.
      for (const PodFacts* other : group_) {
        if (!started(*other) && other->reason == reason::kUnschedulable) refused_by(*other);
      }
      status_.reason = reason::kUnschedulable;
      status_.message = what;
      status_.allocation.clear();
      event(true, reason::kUnschedulable, what);
      return stop("");
    }
    if (waited >= kTrouble && status_.reason != pod.reason) event(true, pod.reason, what);
    if (waited >= kTrouble) {
      status_.reason = pod.reason;
      status_.message = what;
    }
  }
  if (waited >= job_.start_deadline) {
    return failure(reason::kDeadlineExceeded,
                   fmt::format("not all replicas had started after {} s{}{}", job_.start_deadline,
                               status_.message.empty() ? "" : ": ", status_.message));
  }
  look_at(waited, {kTrouble, kUnschedulable, job_.start_deadline});
}

}  // namespace adaptdl::kubernetes
