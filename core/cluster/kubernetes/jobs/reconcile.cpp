#include "core/cluster/kubernetes/jobs/reconcile.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/cluster/kubernetes/scheduler_view.h"
#include "core/formats/json_fields.h"
#include "core/job/phase.h"
#include "core/job/worker_environment.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kSlowest = 60;  // s between attempts after failures, at most
constexpr double kLost = 60;     // s after its grace time when a pod of a lost node is removed
constexpr double kLongestLeap = 3600;  // s that the wall clock may leap
constexpr double kForgiven = 600;      // s of training after which earlier failures do not count
constexpr double kLongestWait = 60;    // s between attempts to create refused pods, at most
constexpr double kUnschedulable =
    60;  // s that a node may lack room, as while other pods still stop
// s until a job may be given more than a quota admitted: others stop for that, or all of its own.
constexpr double kQuotaLasts = 300, kQuotaLastsAll = 1800;

// Seconds that all replicas have been ready, by the last status; 0 if they are not. The longer of
// both clocks: a leap must not end a job, and what another operator saw counts.
double ran_s(const JobStatus& status, const ClusterFacts& cluster) {
  for (const JobCondition& condition : status.conditions) {
    if (condition.type != "Ready" || !condition.is) continue;
    const auto since = parse_rfc3339_s(condition.since);
    return since ? std::max(cluster.now_s - *since, cluster.passed_s(*since)) : 0;
  }
  return 0;
}

void set_conditions(JobStatus& status, double now_s) {
  const bool bad = status.phase == "Failed";
  const std::string reason = status.reason.empty() ? status.phase : status.reason;
  set_condition(status, "Scheduled", !status.allocation.empty(), reason,
                status.allocation.empty() ? status.message : status.why, now_s);
  set_condition(status, "Ready", status.phase == "Running", reason, status.message, now_s);
  set_condition(status, "Progressing", !status.ended() && status.phase != "Pending", reason,
                status.message, now_s);
  set_condition(status, "Complete", status.phase == "Succeeded", reason, "", now_s);
  set_condition(status, "Failed", bad, reason, bad ? status.message : "", now_s);
}

bool started(const PodFacts& pod) {
  return pod.ready || pod.end != PodEnd::none;
}

bool is_refusal(std::string_view named) {  // a reason that pods_refused() gives
  return named == reason::kQuota || named == reason::kPodCreationError;
}

// A replica less on that node. The last entry of it: the first may be the launcher's.
void leave(std::vector<std::string>& allocation, const std::string& node) {
  const auto place = std::find(allocation.rbegin(), allocation.rend(), node);
  if (place != allocation.rend()) allocation.erase(std::next(place).base());
}

// Computes the decision of reconcile(); one object per call.
class Reconciler {
 public:
  static constexpr double kTrouble = 10;  // s before a waiting pod becomes the job's reason
  static constexpr double kSettle = 10;   // s between two starts after a disruption

  Reconciler(const JobObject& job, const std::vector<PodFacts>& pods, const ClusterFacts& cluster);
  JobDecision run(const std::string& problem);
  JobDecision refused(const std::vector<PodPlace>& places, const std::string& message, Refusal why);

 private:
  JobDecision finished();
  void give_back(const std::vector<PodPlace>& places);
  int least() const;
  void decide(const std::string& problem);
  bool all_succeeded() const;
  const PodFacts* first_ended() const;
  void ended_badly(const PodFacts& pod);
  void acknowledge_leader();
  bool waits_for_leader() const;
  double unled_s() const;
  std::string unled() const;
  bool needs_pickles() const;
  static std::string because(const PodFacts& pod);
  void failure(std::string_view reason, const std::string& what);
  bool matches_allocation() const;
  bool complete() const;
  void learn_restartable();
  double pause_s() const;
  void start();
  std::string nodes_text() const;
  void pending(std::string_view reason, const std::string& message);
  void count_service();
  void stop(const std::string& why);
  void remove_all();
  void remove_strangers();
  void remove(const PodFacts& pod);
  void lost(const PodFacts& pod);
  void refused_by(const PodFacts& pod);
  void end(bool good, std::string_view reason, const std::string& message);
  void after_end();
  void look_again(double in_s);
  // Looks again when `waited_s` reaches the next of `moments`; not at all if all have passed.
  void look_at(double waited_s, std::initializer_list<double> moments);
  void event(bool warning, std::string_view reason, const std::string& note);

  // For a group that runs or is starting.
  void watch_live();
  void wait_for_leader();
  void watch_newcomers();
  void unschedulable(const std::string& what);
  static std::string trouble_of(const PodFacts& pod);
  void watch_group();

  const JobObject& job_;
  const std::vector<PodFacts>& pods_;
  const ClusterFacts& cluster_;
  std::vector<const PodFacts*> group_;     // pods of the present group
  std::vector<const PodFacts*> deciding_;  // pods whose end ends the group: all, or the launcher's
  JobDecision decision_;
  JobStatus& status_;
  bool told_lost_ = false;  // lost() has reported a pod
};

Reconciler::Reconciler(const JobObject& job, const std::vector<PodFacts>& pods,
                       const ClusterFacts& cluster)
    : job_(job), pods_(pods), cluster_(cluster), status_(decision_.status) {
  status_ = job.status;
  for (const PodFacts& pod : pods) {
    if (status_.group && pod.group == *status_.group) group_.push_back(&pod);
  }
  acknowledge_leader();
  deciding_ = group_;
  if (job_.live) {
    std::erase_if(deciding_,
                  [this](const PodFacts* pod) { return pod->rank != status_.launcher(); });
  }
}

JobDecision Reconciler::run(const std::string& problem) {
  decide(problem);
  return finished();
}

JobDecision Reconciler::refused(const std::vector<PodPlace>& places, const std::string& message,
                                Refusal why) {
  if (why == Refusal::invalid) {
    failure(reason::kPodCreationError, message);
    return finished();
  }
  const auto named = why == Refusal::quota ? reason::kQuota : reason::kPodCreationError;
  // Retried with growing delays, without further events, until it succeeds.
  const bool again = is_refusal(status_.reason);
  const double delay = again ? 2 * status_.retry_delay_s.value_or(0) : kSettle;
  status_.retry_delay_s = std::clamp(delay, kSettle, kLongestWait);
  status_.retry_s = cluster_.now_s + *status_.retry_delay_s;
  look_again(*status_.retry_delay_s);
  if (status_.reason != named) event(true, named, message);
  // Not at once: what has just ended may still count.
  if (why == Refusal::quota && again) give_back(places);
  // Otherwise the existing replicas continue.
  if (!job_.live || deciding_.empty() || status_.allocation.empty()) stop("");
  status_.reason = named;
  status_.message = message;
  return finished();
}

// The nodes that a quota leaves without pods are others'. The allocator learns what was admitted;
// less than the job needs, which is all if that stays so to its end, it waits without nodes. A
// group that trains, and has lost some, goes on as it is.
void Reconciler::give_back(const std::vector<PodPlace>& places) {
  std::vector<std::string> admitted = status_.allocation;
  for (const PodPlace& place : places) leave(admitted, place.node);
  const int left = static_cast<int>(admitted.size());
  const bool enough = job_.preemptible && left >= least();
  const bool trains =
      job_.live && !deciding_.empty() && status_.phase == phase_name(JobPhase::running);
  if (!enough && trains) return;
  if (!enough) admitted.clear();
  status_.allocation = std::move(admitted);
  decision_.bound = {enough ? left : 0, enough && !job_.live ? kQuotaLastsAll : kQuotaLasts};
}

int Reconciler::least() const {
  return std::max(1, job_.min_replicas);
}

JobDecision Reconciler::finished() {
  set_conditions(status_, cluster_.now_s);
  return std::move(decision_);
}

void Reconciler::decide(const std::string& problem) {
  if (job_.deleting) return remove_all();
  if (status_.ended()) return after_end();
  learn_restartable();
  if (!problem.empty()) return end(false, reason::kInvalid, problem);
  if (job_.cancelled && !all_succeeded()) {
    return end(false, reason::kCancelled, "cancelled by `adaptdl cancel`");
  }
  if (pods_.empty() && !cluster_.expects_pods) {
    // The pods vanished unseen: count their service, and show that the job stopped.
    if (status_.phase == phase_name(JobPhase::running)) return stop("the job's pods are gone");
    return start();
  }
  if (all_succeeded()) {
    return end(true, "", "");
  }
  const PodFacts* const first = first_ended();
  if (first != nullptr && !waits_for_leader()) return ended_badly(*first);
  if (status_.phase == "Stopping") return stop("");
  if (group_.empty() && !pods_.empty()) return stop("");  // pods of an earlier group are left
  remove_strangers();
  if (job_.suspended) {
    status_.allocation.clear();
    return stop("the job is suspended");
  }
  if (job_.live) return watch_live();
  if (!matches_allocation()) return stop("the allocation has changed");
  if (!complete()) {
    if (cluster_.expects_pods) return look_again(kTrouble);
    return stop("a replica's pod is gone");
  }
  watch_group();
}

// A launcher tells all pods of its group how the run has ended, and they exit as it does: where it
// is lost meanwhile, they know.
bool Reconciler::all_succeeded() const {
  const auto succeeded = [](const PodFacts* pod) { return pod->end == PodEnd::succeeded; };
  if (job_.live) {
    const bool leads = std::ranges::any_of(
        deciding_, [](const PodFacts* pod) { return pod->end == PodEnd::none; });
    return !leads && std::ranges::any_of(group_, succeeded);
  }
  const auto count = std::ranges::count_if(deciding_, succeeded);
  return count > 0 && count == deciding_.front()->replicas;
}

// The launcher was lost, and the replica of another pod leads: what it has told, it may have told
// before the loss was seen here.
void Reconciler::acknowledge_leader() {
  const auto& told = status_.leads;
  if (!job_.live || status_.phase != phase_name(JobPhase::running) || !told ||
      told->group != status_.group || told->rank == status_.launcher()) {
    return;
  }
  const auto found = std::ranges::find(group_, told->rank, &PodFacts::rank);
  if (found == group_.end() || (*found)->end != PodEnd::none) return;
  event(false, "LauncherReplaced",
        fmt::format("replica {} on {} leads in place of replica {}", told->rank, (*found)->node,
                    status_.launcher()));
  std::erase(status_.launchers, told->rank);
  status_.launchers.push_back(told->rank);
  status_.launcher_lost_s.reset();
  // The allocator keeps the node of the first entry.
  const auto place = std::ranges::find(status_.allocation, (*found)->node);
  if (place != status_.allocation.end()) {
    std::rotate(status_.allocation.begin(), place, std::next(place));
  }
}

bool Reconciler::waits_for_leader() const {
  return job_.live && status_.phase == phase_name(JobPhase::running) &&
         may_be_led_again(group_, status_, unled_s());
}

// Seconds since the loss of the launcher was seen.
double Reconciler::unled_s() const {
  return status_.launcher_lost_s ? cluster_.passed_s(*status_.launcher_lost_s) : 0;
}

// Why all replicas restart although only the launcher is lost; continues a sentence.
std::string Reconciler::unled() const {
  if (!job_.live || !status_.launcher_lost_s) return "";
  return unled_s() < kSuccession
             ? "; no other replica could lead the run on"
             : fmt::format("; no other replica has led the run on within {} s", kSuccession);
}

// Of the pods that did not succeed, the one whose container ended first: the others may have failed
// because that peer was gone. A disruption without a time comes before failures.
const PodFacts* Reconciler::first_ended() const {
  const PodFacts* first = nullptr;
  const auto when = [](const PodFacts& pod) {
    return pod.ended_s > 0 || pod.end == PodEnd::disrupted ? pod.ended_s : HUGE_VAL;
  };
  for (const PodFacts* pod : deciding_) {
    if (pod->end == PodEnd::none || pod->end == PodEnd::succeeded) continue;
    if (first == nullptr || when(*pod) < when(*first)) first = pod;
  }
  return first;
}

void Reconciler::ended_badly(const PodFacts& pod) {
  // Decided only once: while the pods are deleted, they all look ended.
  if (status_.phase == "Stopping") return stop("");
  if (pod.end == PodEnd::disrupted) {
    // The restart waits, in case a node refuses at once; a node that refused the pod is avoided.
    if (status_.group_started_s) status_.retry_s = *status_.group_started_s + kSettle;
    if (is_node_refusal(pod.reason)) {
      status_.allocation.clear();
      decision_.refused_by[pod.node] = 0;
    }
    return stop(fmt::format("replica {} on {} was asked to stop{}{}", pod.rank, pod.node,
                            because(pod), unled()));
  }
  if (needs_pickles()) {
    status_.load_pickles = true;
    event(true, "LoadsPickles",
          fmt::format("torch.load refused AdaptDL's own checkpoint; the job restarts with {}=1",
                      kLoadPicklesVariable));
    return stop("torch.load refused AdaptDL's own checkpoint");
  }
  const bool memory = pod.end == PodEnd::memory;
  const std::string what =
      memory ? fmt::format(
                   "replica {} on {}: out of memory (exit code {}); raise its memory request and "
                   "limit",
                   pod.rank, pod.node, pod.exit_code)
             : fmt::format("replica {} on {}: exit code {}{}{}", pod.rank, pod.node, pod.exit_code,
                           because(pod), unled());
  failure(memory ? reason::kOutOfMemory : reason::kPodFailure, what);
}

// Once, and not if the job's template decides it.
bool Reconciler::needs_pickles() const {
  return !status_.load_pickles &&
         !has_named(list_at(first_container(job_), "env"), kLoadPicklesVariable) &&
         std::any_of(deciding_.begin(), deciding_.end(),
                     [](const PodFacts* pod) { return pod->needs_pickles; });
}

std::string Reconciler::because(const PodFacts& pod) {
  if (pod.reason.empty()) return "";
  if (pod.message.empty()) return " (" + pod.reason + ")";
  return fmt::format(" ({}: {})", pod.reason, pod.message);
}

void Reconciler::failure(std::string_view reason, const std::string& what) {
  const bool forgiven = ran_s(job_.status, cluster_) >= kForgiven;
  status_.failures = forgiven ? 1 : status_.failures + 1;
  if (status_.failures > job_.backoff_limit) return end(false, reason, what);
  const double delay = std::min(kSlowest, std::exp2(std::clamp(status_.failures - 1, 0, 10)));
  status_.retry_s = cluster_.now_s + delay;
  status_.reason = reason::kBackoff;
  status_.message = fmt::format("{}; attempt {} of {} starts in {} s", what, status_.failures + 1,
                                job_.backoff_limit + 1, delay);
  event(true, reason, status_.message);
  remove_all();
  status_.phase = phase_name(JobPhase::stopping);
}

bool Reconciler::matches_allocation() const {
  if (status_.allocation.empty()) return false;
  for (const PodFacts* pod : group_) {
    if (pod->replicas != static_cast<int>(status_.allocation.size()) || pod->rank < 0 ||
        pod->rank >= pod->replicas ||
        pod->node != status_.allocation[static_cast<size_t>(pod->rank)]) {
      return false;
    }
  }
  return true;
}

bool Reconciler::complete() const {
  std::set<int> ranks;
  for (const PodFacts* pod : group_) ranks.insert(pod->rank);
  return ranks.size() == status_.allocation.size();
}

// The group was stopped, and all of its pods that are left have ended with 143: as on this machine,
// the job is known to save and to be restartable. Pods may vanish one after the other, so those
// that are gone do not count; a pod that ended otherwise and is still there does.
void Reconciler::learn_restartable() {
  if (job_.live || group_.empty() || status_.phase != phase_name(JobPhase::stopping)) return;
  status_.restartable |= std::all_of(group_.begin(), group_.end(), [](const PodFacts* pod) {
    return pod->deleting && pod->exit_code == kAskedToStop;
  });
}

// Until the next attempt. A time farther away than any pause is from before the clock was set back.
double Reconciler::pause_s() const {
  const double pause = status_.retry_s.value_or(0) - cluster_.now_s;
  return pause <= std::max(kSlowest, kLongestWait) ? std::max(pause, 0.0) : 0;
}

// There is no pod.
void Reconciler::start() {
  status_.ready = status_.replicas = 0;
  if (job_.suspended) {
    status_.allocation.clear();  // other jobs may have it by now
    return pending(reason::kSuspended, "suspended until `adaptdl resume`");
  }
  if (pause_s() > 0) {
    status_.phase = phase_name(JobPhase::pending);
    decision_.again_s = status_.retry_s;
    return;
  }
  status_.retry_s.reset();
  if (status_.allocation.empty()) {
    // The controller's reason about the pods stays until the allocator has decided.
    const bool told = status_.reason == reason::kUnschedulable || is_refusal(status_.reason);
    return pending(told ? status_.reason : reason::kWaiting, told ? status_.message : status_.why);
  }
  status_.group = status_.group ? *status_.group + 1 : 0;
  status_.phase = phase_name(JobPhase::starting);
  // The reason why the last group did not start stays until this one runs or has another problem.
  const bool refused = is_refusal(status_.reason);
  if (status_.reason != reason::kUnschedulable && !refused) {
    status_.reason.clear();
    status_.message.clear();
  }
  status_.replicas = static_cast<int>(status_.allocation.size());
  status_.group_started_s = status_.held_since_s = cluster_.now_s;
  status_.launchers.clear();
  status_.launcher_lost_s.reset();
  if (!status_.started_s) status_.started_s = cluster_.now_s;
  for (const std::string& node : status_.allocation) {
    decision_.create.push_back({static_cast<int>(decision_.create.size()), node});
  }
  if (!refused) {
    event(false, "Starting",
          fmt::format("group {}: {} replica{} on {}", *status_.group, status_.replicas,
                      status_.replicas == 1 ? "" : "s", nodes_text()));
  }
  look_again(job_.start_deadline);
}

std::string Reconciler::nodes_text() const {
  const std::set<std::string> nodes(status_.allocation.begin(), status_.allocation.end());
  if (nodes.size() <= 4) return fmt::format("{}", fmt::join(nodes, ", "));
  return fmt::format("{} nodes", nodes.size());
}

void Reconciler::pending(std::string_view reason, const std::string& message) {
  status_.phase = phase_name(JobPhase::pending);
  status_.reason = reason;
  status_.message = message;
}

// Adds the time for which the job held its allocation.
void Reconciler::count_service() {
  if (status_.phase == phase_name(JobPhase::stopping) || !status_.held_since_s) return;
  status_.attained_service +=
      service_rate(job_) * status_.replicas * std::max(0.0, cluster_.now_s - *status_.held_since_s);
  status_.held_since_s = cluster_.now_s;
  status_.replicas = 0;
}

void Reconciler::stop(const std::string& why) {
  count_service();
  if (status_.phase != "Stopping" && !why.empty()) event(false, "Stopping", why);
  status_.phase = phase_name(JobPhase::stopping);
  if (!why.empty()) {
    status_.reason.clear();
    status_.message = why;
  }
  remove_all();
}

// Removes pods that are not being deleted yet; those of lost nodes at once, after kLost.
void Reconciler::remove_all() {
  status_.ready = 0;
  for (const PodFacts& pod : pods_) remove(pod);
}

// Pods of an earlier group beside the present one. An operator that led before may have asked for
// them in time, and its request came late. They must not stop those that train.
void Reconciler::remove_strangers() {
  for (const PodFacts& pod : pods_) {
    if (pod.group != status_.group) remove(pod);
  }
}

void Reconciler::remove(const PodFacts& pod) {
  if (!pod.deleting) return decision_.remove.push_back({pod.name});
  const double left = pod.grace_s + kLost - cluster_.passed_s(pod.deleted_s - pod.grace_s);
  if (left > 0) {
    look_again(left);
  } else if (std::binary_search(cluster_.nodes.begin(), cluster_.nodes.end(), pod.node)) {
    lost(pod);
  } else {
    decision_.remove.push_back({pod.name, true});
  }
}

// The pod's node exists, but does not respond. Only a person can tell whether that machine is off;
// if it is on, its pod may still write checkpoints. Only the first such pod is reported, and none
// if the job continues and already has another reason.
void Reconciler::lost(const PodFacts& pod) {
  look_again(kLost);
  const bool speaks = !status_.reason.empty() && status_.reason != reason::kNodeLost;
  if (speaks && status_.phase != phase_name(JobPhase::stopping)) return;
  if (std::exchange(told_lost_, true)) return;
  const std::string what = fmt::format(
      "replica {} on {} does not confirm its end; if that machine is off, run `kubectl delete node "
      "{}` or taint the node with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
      pod.rank, pod.node, pod.node);
  if (job_.status.reason != reason::kNodeLost) event(true, reason::kNodeLost, what);
  status_.reason = reason::kNodeLost;
  status_.message = what;
}

void Reconciler::end(bool good, std::string_view reason, const std::string& message) {
  count_service();
  status_.phase = phase_name(good ? JobPhase::succeeded : JobPhase::failed);
  status_.reason = reason;
  status_.message = message;
  status_.allocation.clear();
  status_.completed_s = cluster_.now_s;
  status_.retry_s.reset();
  status_.retry_delay_s.reset();
  event(!good, good ? "Succeeded" : reason, good ? "all replicas have finished" : message);
  after_end();
}

// Finished pods hold only their logs, and stay.
void Reconciler::after_end() {
  status_.ready = 0;
  if (!status_.completed_s) status_.completed_s = cluster_.now_s;
  status_.allocation.clear();
  // The end of the launcher's pod shows that a live job has succeeded; the others end soon, too.
  const bool ends = job_.live && status_.phase == phase_name(JobPhase::succeeded);
  const double passed = cluster_.passed_s(*status_.completed_s);
  const double patience = ends ? kSettle - passed : 0;
  for (const PodFacts& pod : pods_) {
    const bool finished = pod.end != PodEnd::none && pod.ended_s > 0;
    if (finished || pod.end == PodEnd::succeeded || pod.deleting) continue;
    if (patience > 0) {
      look_again(patience);
    } else {
      decision_.remove.push_back({pod.name});
    }
  }
  if (!job_.ttl_s) return;
  const double left = *job_.ttl_s - passed;
  decision_.remove_job = left <= 0;
  if (!decision_.remove_job) look_again(std::min(left, kLongestLeap));
}

void Reconciler::look_again(double in_s) {
  const double when = cluster_.now_s + std::max(in_s, 0.1);
  decision_.again_s = std::min(decision_.again_s.value_or(when), when);
}

void Reconciler::look_at(double waited_s, std::initializer_list<double> moments) {
  for (const double moment : moments) {
    if (moment > waited_s) look_again(moment - waited_s);
  }
}

void Reconciler::event(bool warning, std::string_view reason, const std::string& note) {
  decision_.events.push_back({warning, std::string(reason), note});
}

// The others go on, or wait, and are left alone. New pods would have nobody to join.
void Reconciler::wait_for_leader() {
  if (!status_.launcher_lost_s) {
    status_.launcher_lost_s = cluster_.now_s;
    const PodFacts* const pod = first_ended();
    status_.message = fmt::format(
        "replica {}, which led the run, {}; the others go on with one of them as the launcher",
        status_.launcher(),
        pod == nullptr                  ? "is gone"
        : pod->end == PodEnd::disrupted ? "was asked to stop" + because(*pod)
                                        : fmt::format("ended with exit code {}", pod->exit_code));
    event(true, "LauncherLost", status_.message);
  }
  status_.ready = static_cast<int>(
      std::ranges::count_if(group_, [](const PodFacts* pod) { return pod->ready; }));
  look_again(kSuccession - unled_s());
}

// The launcher lives. Missing pods are created and superfluous ones removed while the others train.
void Reconciler::watch_live() {
  if (deciding_.empty() && cluster_.expects_pods) return look_again(kTrouble);
  if (status_.allocation.empty()) return stop("the allocation has changed");
  if (waits_for_leader()) return wait_for_leader();
  const LiveGroup fit = fit_live_group(group_, status_);
  if (!fit.over.empty()) return stop(fit.over + unled());
  status_.launcher_lost_s.reset();
  const int replicas = static_cast<int>(status_.allocation.size());
  if (status_.replicas != replicas) {
    const int before = status_.replicas;
    count_service();
    event(false, "Rescaling", fmt::format("replicas {} -> {}", before, replicas));
  }
  watch_group();
  if (status_.phase == phase_name(JobPhase::running)) {
    // The reason why new pods were refused stays until they are created.
    if (!fit.create.empty() && is_refusal(job_.status.reason)) {
      status_.reason = job_.status.reason;
      status_.message = job_.status.message;
      status_.retry_delay_s = job_.status.retry_delay_s;
    }
    watch_newcomers();
  }
  for (const PodFacts* pod : fit.remove) remove(*pod);
  if (fit.create.empty() || status_.phase == phase_name(JobPhase::stopping)) return;
  const double settle = fit.failed_s > 0 ? kSettle - cluster_.passed_s(fit.failed_s) : 0;
  const double wait = std::max(settle, pause_s());
  if (cluster_.expects_pods) {
    look_again(kTrouble);
  } else if (wait > 0) {
    look_again(wait);
  } else {
    decision_.create = fit.create;
  }
}

// A new pod that does not start does not block the training replicas; it is removed if its node has
// no room. Of several such pods the one with the smallest rank is reported.
void Reconciler::watch_newcomers() {
  const PodFacts* told = nullptr;
  for (const PodFacts* pod : group_) {
    if (started(*pod) || pod->deleting) continue;
    const double waited = cluster_.passed_s(pod->created_s);
    look_at(waited, {kTrouble, kUnschedulable});
    if (waited < kTrouble || pod->reason.empty()) continue;
    if (told == nullptr || pod->rank < told->rank) told = pod;
    if (pod->reason != reason::kUnschedulable || waited < kUnschedulable) continue;
    leave(status_.allocation, pod->node);
    refused_by(*pod);
    remove(*pod);
  }
  // The allocator mends that, unless it must leave the job as it is.
  if (told != nullptr && !job_.preemptible && std::ssize(status_.allocation) < least()) {
    return unschedulable(trouble_of(*told));
  }
  if (told == nullptr || !status_.reason.empty()) return;
  status_.reason = told->reason;
  status_.message = trouble_of(*told);
  if (job_.status.reason != told->reason) event(true, told->reason, status_.message);
}

// A node that runs other pods of the group takes so many: what the view does not know, such as a
// port of the node that each replica wants, may limit them.
void Reconciler::refused_by(const PodFacts& pod) {
  decision_.refused_by[pod.node] =
      static_cast<int>(std::ranges::count_if(group_, [&](const PodFacts* other) {
        return other->node == pod.node && started(*other) && !other->deleting;
      }));
}

// All stop, and the allocator decides again.
void Reconciler::unschedulable(const std::string& what) {
  status_.reason = reason::kUnschedulable;
  status_.message = what;
  status_.allocation.clear();
  event(true, reason::kUnschedulable, what);
  stop("");
}

std::string Reconciler::trouble_of(const PodFacts& pod) {
  return fmt::format("replica {} on {}{}{}", pod.rank, pod.node, pod.message.empty() ? "" : ": ",
                     pod.message);
}

// The pods match the allocation, and none has failed.
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
  const double waited = status_.group_started_s ? cluster_.passed_s(*status_.group_started_s) : 0;
  const auto troubled = std::find_if(group_.begin(), group_.end(), [](const PodFacts* pod) {
    return !started(*pod) && !pod->reason.empty();
  });
  if (troubled != group_.end()) {
    const PodFacts& pod = **troubled;
    const std::string what = trouble_of(pod);
    if (pod.reason == reason::kUnschedulable && waited >= kUnschedulable) {
      // The node has no room, other than the allocator assumed, so the allocator must decide again.
      for (const PodFacts* other : group_) {
        if (!started(*other) && other->reason == reason::kUnschedulable) refused_by(*other);
      }
      return unschedulable(what);
    }
    if (waited >= kTrouble && status_.reason != pod.reason) event(true, pod.reason, what);
    if (waited >= kTrouble) {
      status_.reason = pod.reason;
      status_.message = what;
    }
  }
  if (waited >= job_.start_deadline) {
    return failure(reason::kDeadlineExceeded,
                   fmt::format("not all replicas started within {} s{}{}", job_.start_deadline,
                               status_.message.empty() ? "" : ": ", status_.message));
  }
  look_at(waited, {kTrouble, kUnschedulable, job_.start_deadline});
}

}  // namespace

double elapsed_s(double wall_s, std::optional<double> seen_s) {
  if (!seen_s) return wall_s;
  return *seen_s < kLongestLeap ? *seen_s : std::max(wall_s, *seen_s);
}

double ClusterFacts::passed_s(double moment_s) const {
  return elapsed_s(now_s - moment_s, seen_s ? std::optional(seen_s(moment_s)) : std::nullopt);
}

JobDecision reconcile(const JobObject& job, const std::string& problem,
                      const std::vector<PodFacts>& pods, const ClusterFacts& cluster) {
  return Reconciler(job, pods, cluster).run(problem);
}

JobDecision pods_refused(const JobObject& job, const std::vector<PodFacts>& pods,
                         const std::vector<PodPlace>& places, const std::string& message,
                         Refusal why, const ClusterFacts& cluster) {
  return Reconciler(job, pods, cluster).refused(places, message, why);
}

void set_allocation(JobStatus& status, const std::optional<std::vector<std::string>>& nodes,
                    const std::string& why, double now_s) {
  if (nodes) {
    if (!nodes->empty() && status.group && status.allocation != *nodes) ++status.rescales;
    status.allocation = *nodes;
  }
  status.why = why;
  const bool refused = status.allocation.empty() && is_refusal(status.reason);
  if (status.phase == "Pending" && (status.reason == reason::kWaiting || refused)) {
    status.reason = reason::kWaiting;
    status.message = why;
  }
  if (!status.phase.empty()) set_conditions(status, now_s);
}

}  // namespace adaptdl::kubernetes
