#pragma once

// The input of a policy: the cluster and its jobs at one moment, as plain data. A policy never asks
// the live cluster, so the same snapshot gives the same answer in a cluster, in the simulator and
// in a test. Immutable once built; safe to read from many threads.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/goodput/job_hints.h"

namespace adaptdl {

// Whether a resource stands for a condition: nodes that meet it have a large amount, others 0, and
// jobs that need it request 1.
inline bool is_condition(std::string_view resource) {
  return resource.find(':') != std::string_view::npos;
}

// Whether a resource is accelerators of some vendor, by its name: GPUs (also "gpu" alone, as on
// this machine), slices of them, TPUs and the like.
bool is_accelerator(std::string_view resource);

struct NodeSnapshot {
  std::string name;
  std::string accelerator;        // kind of its GPUs; "" if the cluster has one kind or none
  std::vector<int64_t> capacity;  // free for jobs, in the order of Snapshot::resources, >= 0
};

// The nodes that hold a job's replicas: one entry for each replica, by rank, an index into
// Snapshot::nodes. Empty: no allocation.
using NodeList = std::vector<int>;

struct JobSnapshot {
  std::string name;             // unique in the snapshot; ties are broken by it
  double age_s = 0;             // since its submission, >= 0
  double attained_service = 0;  // GPU seconds it has held, >= 0
  int restarts = 0;             // changes of its allocation after the first
  int min_replicas = 0;         // the job cannot train with fewer
  int max_replicas = 1;         // >= max(1, min_replicas)
  int requested_replicas = 1;   // by its user, >= 1; policies that adapt ignore it
  int64_t requested_batch = 0;  // total, by its user; 0: unknown
  bool preemptible = true;      // false: once allocated, it keeps its allocation
  // It can be restarted with another number of replicas, and goes on from what it has saved. Only
  // of use for a job that has measured nothing: others rescale in any case.
  bool restartable = false;
  // A change of its allocation is under way: it keeps its replicas, number of nodes and kind of
  // accelerator, but may move.
  bool settling = false;
  std::vector<int64_t> request;  // by one replica, in the order of Snapshot::resources, >= 0
  NodeList nodes;                // its present allocation
  // What jobs like it that have ended tell of its length: the GPU seconds that it needs for each
  // job that ends soon (gittins_rank() of core/sched/length_history.h), >= 0. None: no such jobs.
  std::optional<double> length_rank;
  JobHints hints;
};

struct Snapshot {
  // resources[0] is what policies count: accelerators, or cores if the cluster has none.
  std::vector<std::string> resources;
  std::vector<NodeSnapshot> nodes;
  std::vector<JobSnapshot> jobs;  // by submission, then by name
};

// Throws Error with the job or node if the snapshot is invalid: duplicate names, vectors of another
// length than `resources`, negative amounts, a node index out of range, NaN, inconsistent bounds, a
// replica that requests no resource. A caller that builds a snapshot from hints omits or repairs an
// invalid job first, so that it does not affect other jobs.
void check_snapshot(const Snapshot& snapshot);

// The same for one job of it, and for its hints alone.
void check_job(const Snapshot& snapshot, const JobSnapshot& job);
void check_hints(const JobHints& hints, const std::string& job);

// The different nodes of the list, in order, and their number. O(size log size).
NodeList each_once(NodeList nodes);
int distinct_nodes(const NodeList& nodes);

// Whether the job will never tell how fast it is, but may have any number of replicas: it is
// restartable, and has measured nothing. Policies assume kAssumedPower of it.
bool is_silent(const JobSnapshot& job);

// The goodput of a silent job is taken to grow as replicas^kAssumedPower: twice the replicas are
// worth 1.19 times as much, less than to most jobs that have measured it. So silent jobs get mostly
// what others leave, and a restart pays off only when the last one is some minutes past, the longer
// the more often the job has been restarted.
inline constexpr double kAssumedPower = 0.25;

// The least cost, in seconds, that policies assume of a silent job's restart. It cannot tell how
// long its program takes to save, start and load, which may be minutes. A guess that is too high
// costs it a tenth of its time on a full cluster; one that is too low, half as much again
// (tests/unit/sim/silent_test.cpp).
inline constexpr double kAssumedRestart = 180;

// The cost of a change of the job's allocation, in seconds: what it has measured, else
// `unmeasured_s`, or kAssumedRestart if it is silent and that is more. >= 0.
double rescale_cost_s(const JobSnapshot& job, double unmeasured_s);

// The power of replicas by which the goodput of a job that has measured nothing grows.
inline double assumed_power(const JobSnapshot& job) {
  return is_silent(job) ? kAssumedPower : 1;
}

// The most replicas that an adaptive policy may give the job: at most its own maximum, what its
// largest batch can feed, and `growth` times what it has measured, so that measurements correct a
// wrong extrapolation in time (Pollux, section 4.2, uses twice). >= 0; at most 1 for a job that has
// measured nothing, unless it is silent: no measurement will ever permit more.
int replica_limit(const JobSnapshot& job, double growth = 2);

}  // namespace adaptdl
