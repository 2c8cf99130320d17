#pragma once

// The custom resource AdaptDLJob (adaptdl.petuum.com/v1), as read from the API server and as its
// status is written back. Fields of AdaptDL keep its names; ours stand beside them.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

inline constexpr std::string_view kJobGroup = "adaptdl.petuum.com";
inline constexpr std::string_view kJobVersion = "v1";
inline constexpr std::string_view kJobPlural = "adaptdljobs";
inline constexpr std::string_view kJobKind = "AdaptDLJob";

// status.reason of a job, and of its conditions. AdaptDL's own: Invalid, PodFailure,
// PodCreationError.
namespace reason {
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kPodFailure = "PodFailure";
inline constexpr std::string_view kPodCreationError = "PodCreationError";
inline constexpr std::string_view kOutOfMemory = "OutOfMemory";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kCancelled = "Cancelled";
inline constexpr std::string_view kWaiting = "Waiting";  // for an allocation
inline constexpr std::string_view kBackoff = "Backoff";  // for the next try after a failure
inline constexpr std::string_view kUnschedulable = "Unschedulable";
inline constexpr std::string_view kQuota = "QuotaExceeded";  // until there is room in it
inline constexpr std::string_view kNodeLost = "NodeLost";    // a pod there does not end
inline constexpr std::string_view kDeadlineExceeded = "StartDeadlineExceeded";
}  // namespace reason

struct JobCondition {
  std::string type;  // Scheduled, Ready, Progressing, Complete, Failed
  bool is = false;
  std::string reason, message;
  std::string since;  // lastTransitionTime, RFC 3339

  bool operator==(const JobCondition&) const = default;
};

struct JobStatus {
  std::string phase;  // a JobPhase's name; "" before the controller has seen the job
  std::string reason, message;
  std::vector<std::string> allocation;  // names of nodes, one for each replica, by rank
  std::string why;                      // of the allocation, from the policy
  std::optional<int64_t> group;         // generation of the pods; none before the first
  int replicas = 0, ready = 0;
  int rescales = 0;  // changes of the allocation after the first
  int failures = 0;  // in a row
  std::optional<double> started_s, completed_s, retry_s;  // seconds since 1970
  std::optional<double> retry_delay_s;    // the last before a try to make refused pods
  std::optional<double> group_started_s;  // when the group's pods were made
  std::optional<double> held_since_s;     // what `replicas` says, it has since
  double attained_service = 0;            // GPU (or replica) seconds
  Json train;                             // hints, as they came; null if none
  std::vector<JobCondition> conditions;

  bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
  bool operator==(const JobStatus&) const = default;
};

struct JobObject {
  std::string job_namespace, name, uid, resource_version;
  int64_t generation = 0;
  double created_s = 0;
  bool deleting = false;

  std::shared_ptr<const Json> pod_template;  // never null; may be any JSON
  int min_replicas = 0;
  std::optional<int> max_replicas;
  std::optional<int> requested_replicas;  // ours: for policies that do not adapt
  bool preemptible = true;
  bool live = false;            // ours: its programs rescale live, see live_group.h
  bool suspended = false;       // ours
  bool cancelled = false;       // ours: it ends, and does not go on
  int backoff_limit = 3;        // ours: failures in a row that are tried again
  std::optional<int> ttl_s;     // ours: removed so long after its end
  double start_deadline = 600;  // ours: seconds until all pods of a group must have started

  JobStatus status;

  std::string id() const { return job_namespace + "/" + name; }
};

// Reads what the API server sent. Unknown fields are passed over; a wrong type in the status is
// taken as absent, since other programs may write there; one in the spec is kept as `problem`
// ("spec.minReplicas: ..."), for which the job fails as Invalid. Throws Error if the object has
// no name, namespace or uid.
JobObject read_job(const Json& object, std::string& problem);

// Whether the allocator had better look again than wait for its interval's end: the job was asked
// to be another, has ended, was left without nodes, or has measured itself with more replicas.
bool concerns_allocator(const JobObject& before, const JobObject& now);

// What is to be sent as the status by a merge patch that makes `before` into `after`: null if
// nothing has changed. Keys that this program does not know are left alone.
Json status_patch(const JobStatus& before, const JobStatus& after);

// Sets a condition; its time moves only when its truth does.
void set_condition(JobStatus& status, std::string_view type, bool is, std::string_view reason,
                   const std::string& message, double now_s);

}  // namespace adaptdl::kubernetes
