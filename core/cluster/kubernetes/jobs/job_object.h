#pragma once

// The custom resource AdaptDLJob (adaptdl.petuum.com/v1), as read from the API server, and its
// status as written back. AdaptDL's fields keep their names; ours are additions.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/job/accelerators.h"

namespace adaptdl::kubernetes {

inline constexpr std::string_view kJobGroup = "adaptdl.petuum.com";
inline constexpr std::string_view kJobVersion = "v1";
inline constexpr std::string_view kJobPlural = "adaptdljobs";
inline constexpr std::string_view kJobKind = "AdaptDLJob";

// status.reason of a job and of its conditions. From AdaptDL: Invalid, PodFailure,
// PodCreationError.
namespace reason {
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kPodFailure = "PodFailure";
inline constexpr std::string_view kPodCreationError = "PodCreationError";
inline constexpr std::string_view kOutOfMemory = "OutOfMemory";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kCancelled = "Cancelled";
inline constexpr std::string_view kWaiting = "Waiting";  // for an allocation
inline constexpr std::string_view kBackoff = "Backoff";  // waits to restart after a failure
inline constexpr std::string_view kUnschedulable = "Unschedulable";
inline constexpr std::string_view kQuota = "QuotaExceeded";  // waits for room in the quota
inline constexpr std::string_view kNodeLost = "NodeLost";    // a pod on it does not end
inline constexpr std::string_view kDeadlineExceeded = "StartDeadlineExceeded";
}  // namespace reason

struct JobCondition {
  std::string type;  // Scheduled, Ready, Progressing, Complete, Failed
  bool is = false;
  std::string reason, message;
  std::string since;  // lastTransitionTime, RFC 3339

  bool operator==(const JobCondition&) const = default;
};

// A replica of a job that rescales live has told that it leads its group.
struct GroupLeader {
  int64_t group = 0;
  int rank = 0;  // of its pod

  bool operator==(const GroupLeader&) const = default;
};

inline bool has_ended(std::string_view phase) {
  return phase == "Succeeded" || phase == "Failed";
}

struct JobStatus {
  std::string phase;  // a JobPhase's name; "" before the controller has seen the job
  std::string reason, message;
  std::vector<std::string> allocation;  // names of nodes, one for each replica, by rank
  std::string why;                      // the policy's reason for the allocation
  std::optional<int64_t> group;         // generation of the pods; none before the first
  int replicas = 0, ready = 0;
  int rescales = 0;           // changes of the allocation after the first
  int failures = 0;           // in a row
  bool restartable = false;   // its replicas have exited with 143 when the controller stopped them
  bool load_pickles = false;  // torch.load has refused its own AdaptDL checkpoint; now it must not
  std::optional<double> started_s, completed_s, retry_s;  // seconds since 1970
  std::optional<double> retry_delay_s;    // the last delay before creating refused pods again
  std::optional<double> group_started_s;  // when the group's pods were created
  std::optional<double> held_since_s;     // since when the job holds `replicas`
  double attained_service = 0;            // GPU seconds, see service_rate()
  Json train;                             // hints as received; null if none
  std::vector<JobCondition> conditions;
  // Of a job that rescales live. The ranks of the pods that have led the group after that of rank
  // 0, the present one last; since when that is lost and no other one has told that it leads; and
  // the newest that has, which the supervisor writes and no version guards.
  std::vector<int> launchers;
  std::optional<double> launcher_lost_s;
  std::optional<GroupLeader> leads;

  int launcher() const { return launchers.empty() ? 0 : launchers.back(); }  // a pod's rank
  bool ended() const { return has_ended(phase); }
  bool operator==(const JobStatus&) const = default;
};

struct JobObject {
  std::string job_namespace, name, uid, resource_version;
  int64_t generation = 0;
  double created_s = 0;
  bool deleting = false;

  std::shared_ptr<const Json> pod_template;  // never null; may be any JSON
  bool abridged = false;  // the template is, by trim_job(): no pod can be made of it
  int min_replicas = 0;
  std::optional<int> max_replicas;
  std::optional<int> requested_replicas;  // ours: for policies that do not adapt
  Accelerators accelerators;              // ours: those of the nodes on which it may run
  bool preemptible = true;
  // Ours: see JobSpec. None: not said, so the status tells what the job has shown.
  std::optional<bool> restartable;
  bool live = false;            // ours: its programs rescale live, see live_group.h
  bool suspended = false;       // ours
  bool cancelled = false;       // ours: the job ends, and cannot be resumed
  int backoff_limit = 3;        // ours: failures in a row that are retried
  std::optional<int> ttl_s;     // ours: seconds after its end when the job is deleted
  double start_deadline = 600;  // ours: seconds in which all pods of a group must start

  JobStatus status;

  // Whether the scheduler may restart it with another number of replicas.
  bool can_restart() const { return restartable.value_or(status.restartable); }

  std::string id() const { return job_namespace + "/" + name; }
};

// Reads what the API server sent. Ignores unknown fields. A wrong type in the status, or a number
// that no operator writes, counts as absent, since other programs may write there. An error in the
// spec becomes `problem` ("spec.minReplicas: ..."), and the job fails as Invalid. Throws Error if
// the object has no name, namespace or uid.
JobObject read_job(const Json& object, std::string& problem);

Json to_json(const GroupLeader& leader);  // as in a status

// The first container of the job's template; null if there is none. Borrows from the job.
const Json& first_container(const JobObject& job);

// Whether an object of the list has this name, such as a variable of a container's `env`.
bool has_named(const Json& list, const std::string& name);

// Whether the allocator should decide before its interval ends: the job's spec has changed, it has
// ended, it has lost its nodes, or it has measured itself with more replicas.
bool concerns_allocator(const JobObject& before, const JobObject& now);

// The merge patch of the status that turns `before` into `after`; null if nothing has changed.
// Unknown keys stay unchanged.
Json status_patch(const JobStatus& before, const JobStatus& after);

// Sets a condition; its time changes only if its truth changes.
void set_condition(JobStatus& status, std::string_view type, bool is, std::string_view reason,
                   const std::string& message, double now_s);

}  // namespace adaptdl::kubernetes
