#pragma once

// A simulated cluster under a virtual clock, with the same interface as a real one.

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/sched/cluster.h"
#include "core/sched/length_history.h"
#include "core/sim/sim_job.h"
#include "core/sim/workload.h"

namespace adaptdl {

// Where the simulator published with Sia (SOSP'23) differs.
struct SimRules {
  bool same_shape_free = false;  // other nodes cost nothing if kind and placement stay
  bool finish_changes = false;   // a job that has not made progress since a change must not change
  bool speeds_known = false;     // every job knows how fast one replica is on each kind
  bool costs_told = false;       // schedulers know told_rescale_s (ProfileData), not the true cost
};

struct SimClusterOptions {
  // Cost of a change of allocation for a job, seconds; negative: by its profile.
  double rescale_s = 30;
  bool lengths_known = false;  // jobs report their remaining progress
  bool adapt_batch = true;     // false: the batches of the workload
  double interference = 0;     // [0, 1): lost when two distributed jobs share a node
  SimRules rules;
};

// One event, for timelines. Borrows nothing.
struct TimelineEvent {
  enum class Kind { submit, allocate, batch, explain, finish, node_lost, node_back, notice };
  double time_s = 0;
  Kind kind{};
  std::string name;                // of the job, or the node
  std::vector<std::string> nodes;  // allocate
  std::string accelerator;         // allocate: kind of the nodes
  BatchChoice batch;               // allocate, batch
  std::string why;                 // allocate, explain
};

class SimCluster : public Cluster {
 public:
  struct Job {
    WorkloadJob spec;
    SimJob state;
    std::vector<std::string> nodes;  // by rank
    std::string accelerator;         // kind of the nodes; the last one's without allocation
    std::map<std::string, double> gpu_s_by_kind;
    std::string why;
    double started_s = -1;    // < 0: not yet
    double completed_s = -1;  // < 0: not yet
    int restarts = 0;
    bool visible = false;  // submitted
    JobHints reported;     // the hints that have arrived
  };

  // Borrows the profiles. Throws Error for a job of an application without profile.
  SimCluster(std::vector<ClusterNode> nodes, const std::vector<WorkloadJob>& workload,
             const std::map<std::string, Profile>& profiles, const SimClusterOptions& options);

  double now_s() override { return now_s_; }
  std::vector<ClusterNode> nodes() override;
  std::vector<ClusterJob> jobs() override;
  // Stricter than a real cluster: throws Error for a job that is not among jobs(), and for nodes
  // that are not among nodes(). Does not check that the replicas fit, because allocations change
  // one after the other.
  void allocate(const std::string& name, const std::vector<std::string>& nodes,
                const std::string& why) override;
  void explain(const std::string& name, const std::string& why) override;

  // Advances time: every job advances, and jobs submitted by then appear. Returns whether a job
  // came or finished, or reported hints for the first time or of more replicas than before: the
  // events after which a live cluster runs a round. Requires: time_s >= now_s().
  bool advance_to(double time_s);

  bool all_finished() const { return unfinished_ == 0; }
  bool nobody_there() const { return present_ == 0; }  // all jobs have finished or are to come
  double next_submission_s() const;                    // infinite when all have been submitted
  const std::vector<Job>& all_jobs() const { return jobs_; }
  const Job& job(const std::string& name) const;
  double rescale_cost_s(const Job& job) const;
  std::optional<double> start_cost_s(const Job& job) const;

  // Faults. If a node is lost, its jobs lose their allocations; a node under notice gets no new
  // replicas. Throws Error for unknown names.
  void lose_node(const std::string& name);
  void notice_node(const std::string& name);
  void return_node(const std::string& name);

  // Called for each job that has new hints; false: the hints are lost or late.
  std::function<bool(const Job&)> hints_arrive;

  // Called for each job that jobs() returns; may change it.
  std::function<void(ClusterJob&)> distort;

  // Called for every event, in order.
  std::function<void(const TimelineEvent&)> on_event;

 private:
  struct Node {
    ClusterNode node;
    bool lost = false, noticed = false;
    bool available() const { return !lost && !noticed; }
  };
  size_t find_job(const std::string& name) const;
  size_t find_node(const std::string& name) const;
  void withdraw(Job& job, const std::string& why);
  bool report_hints(Job& job);  // whether the job may get more replicas than before
  void restrict_to_kinds(const Profile& profile);
  Resources request_of(const Job& job) const;
  void report_speeds(Job& job) const;
  std::vector<double> interference() const;
  void tell(TimelineEvent::Kind kind, const std::string& name, const Job* job = nullptr) const;

  std::vector<Node> nodes_;
  std::vector<Job> jobs_;                             // by submission
  std::map<std::string, size_t> index_, node_index_;  // by name
  std::set<std::string> restricted_;                  // applications that do not run on all kinds
  SimClusterOptions options_;
  LengthHistory history_;
  double now_s_ = 0;
  size_t unfinished_ = 0, present_ = 0;  // jobs
};

}  // namespace adaptdl
