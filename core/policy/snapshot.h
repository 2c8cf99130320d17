#pragma once

// What a policy sees: the cluster and its jobs at one moment, as plain data. A policy never asks
// the live cluster, so that the same snapshot gives the same answer in a cluster, in the simulator
// and in a test. Immutable once built; safe to read from many threads.

#include <cstdint>
#include <string>
#include <vector>

#include "core/goodput/job_hints.h"

namespace adaptdl {

struct NodeSnapshot {
  std::string name;
  std::string accelerator;        // kind of its GPUs; "" where a cluster has one kind or none
  std::vector<int64_t> capacity;  // free for jobs, in the order of Snapshot::resources, >= 0
};

// The nodes that hold a job's replicas: one entry for each replica, by rank, an index into
// Snapshot::nodes. Empty: no allocation.
using NodeList = std::vector<int>;

struct JobSnapshot {
  std::string name;              // unique in the snapshot; ties are broken by it
  double age_s = 0;              // since its submission, >= 0
  double attained_service = 0;   // GPU seconds it has held, >= 0
  int restarts = 0;              // changes of its allocation after the first
  int min_replicas = 0;          // fewer than these run as well as none
  int max_replicas = 1;          // >= max(1, min_replicas)
  int requested_replicas = 1;    // what its user asked for, >= 1; policies that adapt ignore it
  bool preemptible = true;       // false: once allocated, it keeps what it has
  std::vector<int64_t> request;  // by one replica, in the order of Snapshot::resources, >= 0
  NodeList nodes;                // its present allocation
  JobHints hints;
};

struct Snapshot {
  // resources[0] is what policies count: accelerators, or cores where a cluster has none.
  std::vector<std::string> resources;
  std::vector<NodeSnapshot> nodes;
  std::vector<JobSnapshot> jobs;  // by submission, then by name
};

// Throws Error that names the job or node for what no snapshot may hold: names twice, vectors of
// another length than `resources`, negative amounts, a node index out of range, NaN, bounds that do
// not fit together, a replica that requests nothing of any resource. Whoever builds a snapshot from
// what others sent (hints) leaves out or repairs a bad job first, so that it harms nobody else.
void check_snapshot(const Snapshot& snapshot);

// The same for one job of it, and for its hints alone.
void check_job(const Snapshot& snapshot, const JobSnapshot& job);
void check_hints(const JobHints& hints, const std::string& job);

// How many nodes the list names. O(size log size).
int distinct_nodes(const NodeList& nodes);

// Most replicas that a policy which adapts may give the job: its own maximum, what its largest
// batch can feed, and `growth` times what it has measured, so that a wild extrapolation is
// corrected on the way (Pollux, section 4.2, has twice). >= 0; a job that has measured nothing gets
// 1 at most.
int replica_limit(const JobSnapshot& job, double growth = 2);

}  // namespace adaptdl
