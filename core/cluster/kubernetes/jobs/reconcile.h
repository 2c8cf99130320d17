#pragma once

// Decides what to do about one job: a pure function of the job, its pods and the time.
// Level-triggered: it uses only the present state, so that a controller may be killed at any moment
// and the next one continues. The controller carries the decision out: it writes the status,
// deletes pods, and creates pods only after writing the status with the number of their group.
//
// Invariants
//  1. Only pods of one group run at a time: a new group is created when no pod of the job is left;
//     the controller, whose watch may be behind, asks the API server before it creates the pods.
//     Pods join and leave a group only if the job rescales live (live_group.h).
//  2. A group's number is never used twice: it grows with every start, and is written first.
//  3. A job that has ended stays ended.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/live_group.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"

namespace adaptdl::kubernetes {

struct JobEvent {
  bool warning = false;
  std::string reason, note;  // reason: one word, as in status.reason
};

struct PodRemoval {
  std::string name;
  bool at_once = false;  // without grace time: its node is gone and cannot confirm its end
};

// No more than so many replicas of a job, for some time (s); 0: it waits without nodes.
struct ReplicaBound {
  int replicas = 0;
  double for_s = 0;
};

struct JobDecision {
  JobStatus status;  // the new status
  std::vector<PodRemoval> remove;
  std::vector<PodPlace> create;  // pods of status.group
  // Nodes that refused its pods, against the allocator's assumption, and how many they took.
  std::map<std::string, int> refused_by;
  // What the allocator has to know of a quota.
  std::optional<ReplicaBound> bound;
  bool remove_job = false;        // ttlSecondsAfterFinished has passed
  std::optional<double> again_s;  // look again then, even if nothing changes
  std::vector<JobEvent> events;
};

struct ClusterFacts {
  double now_s = 0;  // since 1970
  // Names of the existing nodes, sorted: a pod on another node never confirms its end.
  const std::vector<std::string>& nodes;
  // Some created pods are not seen yet; meanwhile a group does not count as incomplete.
  bool expects_pods = false;
  // How long (s) this process has known a moment (s since 1970) of the job or its pods, by the
  // monotonic clock. Empty: only now_s counts.
  std::function<double(double moment_s)> seen_s = {};

  // Seconds since a moment, as they count towards a deadline: see elapsed_s().
  double passed_s(double moment_s) const;
};

// The time (s) that counts towards a deadline, of a moment `wall_s` ago by the wall clock, which
// this process has seen for `seen_s`. The wall clock may leap, or be another machine's: so in the
// first hour only what was seen counts, and a leap of an hour ends and removes nothing too early.
// Beyond, also what passed before this process began counts.
double elapsed_s(double wall_s, std::optional<double> seen_s);

// `pods`: those of the job, by their controller's uid; other pods with its label do not count.
// `problem`: of read_job().
JobDecision reconcile(const JobObject& job, const std::string& problem,
                      const std::vector<PodFacts>& pods, const ClusterFacts& cluster);

// Why the API server did not create a pod. Only `invalid` is the job's fault and counts as a
// failure; the others are temporary.
enum class Refusal { invalid, quota, unreachable };

// `places`: of the pods that were to be created and are not there. If a quota forbids them again,
// the job gives their nodes back, and goes on with those that the quota admits if they are enough.
JobDecision pods_refused(const JobObject& job, const std::vector<PodFacts>& pods,
                         const std::vector<PodPlace>& places, const std::string& message,
                         Refusal why, const ClusterFacts& cluster);

// Writes the allocator's decision to a job's status: its new nodes (nothing: unchanged) and the
// reason. Updates the conditions, too, so that a new reason is a single write.
void set_allocation(JobStatus& status, const std::optional<std::vector<std::string>>& nodes,
                    const std::string& why, double now_s);

}  // namespace adaptdl::kubernetes
