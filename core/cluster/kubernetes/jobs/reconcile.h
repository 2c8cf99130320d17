#pragma once

// What becomes of one job: a pure function of the job, its pods and the time. Level-triggered: it
// looks only at what is there, so that a controller may be killed at any moment and the next one
// goes on. The controller carries the decision out: it writes the status, deletes pods, and makes
// pods only after the status that names their group has been written.
//
// Invariants
//  1. Pods of one group only run at a time: a new group is made when no pod of the job is left;
//     the controller, whose watch may be behind, asks the API server before it makes its pods.
//     Pods join and leave a group only if the job rescales live (live_group.h).
//  2. A group's number is never used twice: it grows with every start, and is written first.
//  3. A job that has ended stays ended.

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
  bool at_once = false;  // without grace: its node is gone, nobody would confirm its end
};

struct JobDecision {
  JobStatus status;  // as it is to be
  std::vector<PodRemoval> remove;
  std::vector<PodPlace> create;  // pods of status.group
  // Nodes that did not take its pods, whatever the allocator thought.
  std::vector<std::string> refused_by;
  bool remove_job = false;        // its time to live is over
  std::optional<double> again_s;  // look again then, even if nothing changes
  std::vector<JobEvent> events;
};

struct ClusterFacts {
  double now_s = 0;  // since 1970
  // Names of nodes that are there, sorted: a pod on another one will never confirm its end.
  const std::vector<std::string>& nodes;
  // Pods that were made and are not seen yet: a group is not taken for incomplete meanwhile.
  bool expects_pods = false;
};

// `pods`: those of the job, by their controller's uid; others with its label are none of ours.
// `problem`: of read_job().
JobDecision reconcile(const JobObject& job, const std::string& problem,
                      const std::vector<PodFacts>& pods, const ClusterFacts& cluster);

// Why a pod of the group that was to be made is not there. Only `invalid` is the job's fault and
// counts as a failure; the others pass.
enum class Refusal { invalid, quota, unreachable };

JobDecision pods_refused(const JobObject& job, const std::vector<PodFacts>& pods,
                         const std::string& message, Refusal why, const ClusterFacts& cluster);

// What the allocator says of a job, written to its status: other nodes (none: they stay) and why.
// The conditions say it too, so that a reason alone is one write.
void set_allocation(JobStatus& status, const std::optional<std::vector<std::string>>& nodes,
                    const std::string& why, double now_s);

}  // namespace adaptdl::kubernetes
