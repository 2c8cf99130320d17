#include "core/cluster/kubernetes/jobs/job_reconciler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/clock.h"
#include "core/base/crypto.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/cluster/kubernetes/jobs/pod_trouble.h"
#include "core/cluster/kubernetes/trim.h"
#include "core/job/phase.h"
#include "core/kube/retry.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kErrorPause = 1;       // s until a failed action is retried for the first time
constexpr double kConflictPause = 0.2;  // s; the watch has reported the other change by then
constexpr double kLongestPause = 60;    // s
constexpr std::chrono::seconds kRefusal{300};  // a job avoids a node that refused its pods
constexpr size_t kLongestNote = 1024;          // bytes of an event's note
constexpr const char* kReporter = "adaptdl.petuum.com/operator";

// What the API server says of the operator, or of itself, is not the job's fault.
Refusal refusal_of(const kube::ApiError& error) {
  const std::string& message = error.status().message;
  const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
  // Neither quotas nor missing permissions have a reason of their own: both answer 403, as what
  // checks pods does.
  if (error.forbidden() && says("exceeded quota")) return Refusal::quota;
  if (error.forbidden() && says("cannot create resource")) return Refusal::unreachable;
  static constexpr std::array kNotOfThePod = {401, 408, 409, 429};
  const int code = error.code();
  const bool of_the_pod = code >= 400 && code < 500 && std::ranges::count(kNotOfThePod, code) == 0;
  return of_the_pod ? Refusal::invalid : Refusal::unreachable;
}

}  // namespace

Seconds retry_pause(int failures, double first_s, double jitter) {
  const double doubled = first_s * std::exp2(std::clamp(failures - 1, 0, 20));
  return Seconds(std::min(kLongestPause, doubled) * (1 + jitter / 2));
}

JobReconciler::JobReconciler(kube::Client& client, ClusterCache& cache, const PodSettings& pods,
                             std::string identity, Again again)
    : client_(client),
      cache_(cache),
      pods_(pods),
      identity_(std::move(identity)),
      again_(std::move(again)),
      rng_(kube::jitter_seed()) {}

ReconcilerCounts JobReconciler::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void JobReconciler::reconcile_job(const std::string& id) {
  const auto known = cache_.job(id);
  if (!known) {
    cache_.forget_expected(id);
    const std::lock_guard lock(mutex_);
    removed_.erase(id);
    refusals_.erase(id);
    bounds_.erase(id);
    seen_.erase(id);
    failures_.erase(id);
    return;
  }
  // Asked first: a pod that the watch reports in between is no longer expected then, and would be
  // missing among the pods.
  const bool expects_pods = cache_.expects(id);
  std::vector<PodFacts> pods = cache_.pods(known->job);
  const auto nodes = cache_.node_names();
  ClusterFacts facts = facts_of(known->job, *nodes, expects_pods);
  ask_events(known->job, facts, pods);
  {
    const std::lock_guard lock(mutex_);
    ++counts_.reconciled;
  }
  try {
    JobDecision decision = reconcile(known->job, known->problem, pods, facts);
    const bool starts = !decision.create.empty();
    const bool stops = decision.status.phase != known->job.status.phase;
    if (pods.empty() && (starts || stops) && has_unseen_pods(known->job)) {
      facts.expects_pods = cache_.expects(id);
      decision = reconcile(known->job, known->problem, pods, facts);
    }
    if (!carry_out(*known, pods, decision)) return try_again(id, kConflictPause);
  } catch (...) {
    try_again(id, kErrorPause);
    throw;
  }
  const std::lock_guard lock(mutex_);
  failures_.erase(id);
}

void JobReconciler::try_again(const std::string& id, double first_s) {
  Seconds pause;
  {
    const std::lock_guard lock(mutex_);
    pause = retry_pause(++failures_[id], first_s, rng_.uniform());
  }
  again_(id, pause);
}

ClusterFacts JobReconciler::facts_of(const JobObject& job, const std::vector<std::string>& nodes,
                                     bool expects_pods) {
  const TimePoint now = Monotonic::now();
  return {wall_now_s(), nodes, expects_pods, [this, id = job.id(), now](double moment_s) {
            const std::lock_guard lock(mutex_);
            return seen_[id].seen_s(moment_s, now);
          }};
}

// Whether the job has pods that the watch, which may be behind, has not reported; the cache then
// expects them. Called before each start but the first, since two groups at the same time would
// corrupt a checkpoint, and before a group counts as gone, since it may still run.
bool JobReconciler::has_unseen_pods(const JobObject& job) {
  if (!job.status.group) return false;
  const kube::ObjectList found =
      client_.list(kube::kPods.in(job.job_namespace),
                   {.labels = fmt::format("{}={}", kLabelJob, job.name), .trim = trim_pod});
  std::set<std::string> names;
  for (const Json& object : found.items) {
    const PodFacts pod = read_pod(object);
    if (pod.owner_uid == job.uid) names.insert(pod.name);
  }
  if (names.empty()) return false;
  log_info("{}: the watch has not reported pod {} yet", job.id(), *names.begin());
  cache_.expect(job.id(), names);
  return true;
}

// The pods of one job mostly have the same problem, so only the first silent pod's events are read.
void JobReconciler::ask_events(const JobObject& job, const ClusterFacts& facts,
                               std::vector<PodFacts>& pods) {
  if (job.status.phase != phase_name(JobPhase::starting)) return;
  const auto silent = std::find_if(pods.begin(), pods.end(), [&](const PodFacts& pod) {
    return waits_silently(pod, facts.passed_s(pod.created_s));
  });
  if (silent == pods.end()) return;
  try {
    const kube::Resource events{"", "v1", "events", "", "", ""};
    read_pod_events(
        client_.list(events.in(job.job_namespace), {.fields = "involvedObject.uid=" + silent->uid})
            .items,
        *silent);
  } catch (const Error& error) {
    log_warning("{}: cannot list the events of pod {}: {}", job.id(), silent->name, error.what());
  }
}

bool JobReconciler::carry_out(const KnownJob& known, const std::vector<PodFacts>& pods,
                              const JobDecision& decision) {
  const JobObject& job = known.job;
  if (decision.again_s) again_(job.id(), Seconds(*decision.again_s - wall_now_s()));
  // The status first: a later operator must not use the group's number again.
  if (!write_status(known, decision.status)) return false;
  note_refusals(job.id(), decision);
  for (const JobEvent& event : decision.events) tell(job, event);
  for (const PodRemoval& removal : decision.remove) {
    const auto pod = std::find_if(pods.begin(), pods.end(), [&](const PodFacts& facts) {
      return facts.name == removal.name;
    });
    {
      const std::lock_guard lock(mutex_);
      if (!removal.at_once && removed_[job.id()].contains(pod->uid)) continue;
    }
    kube::DeleteOptions options;
    options.uid = pod->uid;
    if (removal.at_once) options.grace_period_s = 0;
    client_.remove(kube::kPods.in(job.job_namespace, removal.name), options);
    const std::lock_guard lock(mutex_);
    removed_[job.id()].insert(pod->uid);
  }
  if (decision.remove_job) {
    client_.remove(kJobs.in(job.job_namespace, job.name), {.uid = job.uid});
  }
  if (!decision.create.empty()) make_pods(known, decision.status, decision.create);
  return true;
}

bool JobReconciler::write_status(const KnownJob& known, const JobStatus& status) {
  Json patch = status_patch(known.job.status, status);
  if (patch.is_null()) return true;
  patch.erase("train");  // only Controller::write_hints() writes it
  const std::string id = known.job.id();
  try {
    const std::string& base = known.job.resource_version;
    const Json answer = client_.patch(
        kJobs.in(known.job.job_namespace, known.job.name, "status"), kube::PatchKind::merge,
        {{"metadata", {{"resourceVersion", base}}}, {"status", patch}}, {.metadata_only = true});
    cache_.wrote(id, base, kube::metadata_text(answer, "resourceVersion"), patch);
    return true;
  } catch (const kube::ApiError& error) {
    if (error.not_found()) return false;
    if (!error.conflict()) throw;
    const std::lock_guard lock(mutex_);
    ++counts_.conflicts;
    return false;
  }
}

// Programs of AdaptDL do without it, so that neither a quota of Services nor an operator without
// the right to create them keeps pods from starting.
void JobReconciler::create_if_allowed(const kube::Resource& kind, const Json& object,
                                      const std::string& otherwise) {
  try {
    create_if_missing(kind, object);
  } catch (const kube::ApiError& error) {
    if (error.code() != 403) throw;
    log_warning("{}: {}", otherwise, error.what());
  }
}

void JobReconciler::create_if_missing(const kube::Resource& kind, const Json& object) {
  try {
    client_.create(kind, object);
  } catch (const kube::ApiError& error) {
    if (!error.already_exists()) throw;
  }
}

// With the template that the API server has, if the cache has abridged it. Throws Error if it
// cannot be read, whatever the API server says, since the job is not to blame. A list, since the
// operator's role has no other right to read jobs.
JobObject JobReconciler::with_whole_template(JobObject job) {
  if (!job.abridged) return job;
  kube::ObjectList found;
  try {
    found = client_.list(kJobs.in(job.job_namespace),
                         {.fields = "metadata.name=" + job.name, .trim = trim_if_too_large});
  } catch (const kube::ApiError& error) {
    throw Error(error.what());
  }
  std::string problem;
  for (const Json& object : found.items) {
    JobObject whole = read_job(object, problem);
    if (whole.uid != job.uid) continue;
    if (!problem.empty()) throw Error(problem);  // it was changed, as the watch will tell
    job.pod_template = std::move(whole.pod_template);
    job.abridged = false;
    return job;
  }
  fail("{}: the job is gone", job.id());
}

void JobReconciler::make_pods(const KnownJob& known, const JobStatus& status,
                              const std::vector<PodPlace>& places) {
  JobObject job = known.job;
  const std::string id = job.id();
  std::set<std::string> names;
  for (const PodPlace& place : places) names.insert(pod_name(job, *status.group, place.rank));
  cache_.expect(id, names);
  std::string problem;
  Refusal why = Refusal::unreachable;
  std::vector<PodPlace> left = places;
  try {
    // Each time: an earlier operator may have died before it created them.
    create_if_missing(kube::kSecrets.in(job.job_namespace), make_secret(job, pods_.keys(job)));
    if (pods_.network_policies) {
      create_if_allowed(kube::kNetworkPolicies.in(job.job_namespace), network_policy_of(job),
                        id + ": any pod can reach its pods");
    }
    if (needs_service(job, status)) {
      create_if_allowed(kube::kServices.in(job.job_namespace), service_of(job),
                        id + ": its pods cannot resolve MASTER_ADDR");
    }
    job = with_whole_template(std::move(job));
    for (const PodPlace& place : places) {
      const auto node = cache_.node(place.node);
      why = Refusal::invalid;  // if it cannot be made
      const Json pod = make_pod(job, status, place, {node.hostname, node.accelerator}, pods_);
      why = Refusal::unreachable;
      client_.create(kube::kPods.in(job.job_namespace), pod);
      left.erase(left.begin());
      const std::lock_guard lock(mutex_);
      ++counts_.pods_made;
    }
    return;
  } catch (const Cancelled&) {
    throw;  // nobody has refused them
  } catch (const kube::ApiError& error) {
    problem = error.what();
    why = refusal_of(error);
  } catch (const Error& error) {  // no answer, or none of an API server: a proxy's, say
    problem = error.what();
  }
  cache_.forget_expected(id);
  const auto now = cache_.job(id);
  if (!now) return;
  const std::vector<PodFacts> pods = cache_.pods(now->job);
  const auto nodes = cache_.node_names();
  const JobDecision refused =
      pods_refused(now->job, pods, left, problem, why, facts_of(now->job, *nodes));
  if (!carry_out(*now, pods, refused)) try_again(id, kConflictPause);
}

void JobReconciler::note_refusals(const std::string& id, const JobDecision& decision) {
  const TimePoint now = Monotonic::now();
  const std::lock_guard lock(mutex_);
  for (const auto& [node, took] : decision.refused_by) refusals_[id][node] = {took, now + kRefusal};
  if (const auto& bound = decision.bound) {
    bounds_[id] = {bound->replicas, time_after(now, Seconds(bound->for_s))};
  }
}

ReplicaBounds JobReconciler::bounds() {
  ReplicaBounds result;
  const TimePoint now = Monotonic::now();
  const std::lock_guard lock(mutex_);
  std::erase_if(bounds_, [&](const auto& entry) { return entry.second.second <= now; });
  for (const auto& [job, bound] : bounds_) result[job] = bound.first;
  return result;
}

NodeRefusals JobReconciler::refusals() {
  NodeRefusals result;
  const TimePoint now = Monotonic::now();
  const std::lock_guard lock(mutex_);
  for (auto& [job, nodes] : refusals_) {
    std::erase_if(nodes, [&](const auto& refusal) { return refusal.second.second <= now; });
    for (const auto& [node, refusal] : nodes) result[job][node] = refusal.first;
  }
  return result;
}

void JobReconciler::tell(const JobObject& job, const JobEvent& event) {
  const auto now = std::chrono::system_clock::now();
  std::string note(utf8_prefix(event.note, kLongestNote));
  uint8_t random[5];
  random_bytes(random);
  const std::string name = fmt::format("{}.{}", job.name, to_hex(random));
  try {
    client_.create(kube::kEvents.in(job.job_namespace),
                   {{"apiVersion", "events.k8s.io/v1"},
                    {"kind", "Event"},
                    {"metadata", {{"name", name}, {"namespace", job.job_namespace}}},
                    {"eventTime", rfc3339(now, 6)},
                    {"reportingController", kReporter},
                    {"reportingInstance", identity_.substr(0, 128)},
                    {"action", event.reason.substr(0, 128)},
                    {"reason", event.reason.substr(0, 128)},
                    {"type", event.warning ? "Warning" : "Normal"},
                    {"note", std::move(note)},
                    {"regarding",
                     {{"apiVersion", fmt::format("{}/{}", kJobGroup, kJobVersion)},
                      {"kind", kJobKind},
                      {"name", job.name},
                      {"namespace", job.job_namespace},
                      {"uid", job.uid}}}});
  } catch (const Error& error) {
    log_warning("{}: lost an event: {}", job.id(), error.what());
  }
}

}  // namespace adaptdl::kubernetes
