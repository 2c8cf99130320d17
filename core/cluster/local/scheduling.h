#pragma once

// The policy that schedules this machine, and when the next round is due.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/cluster/local/config.h"
#include "core/policy/policy.h"
#include "core/sched/allocator.h"
#include "core/sched/cluster.h"

namespace adaptdl::local {

// Flags of `adaptdl serve`, which override the configuration.
struct SchedulingFlags {
  std::optional<std::string> policy;
  std::map<std::string, double> options;  // only with `policy`
};

class Scheduling {
 public:
  // Borrows the cluster for its life. Throws Error for an invalid configuration.
  Scheduling(Cluster& cluster, const ServiceConfig& config, SchedulingFlags flags);

  // Uses another configuration from now on, with a round at once. Throws Error, and keeps the
  // previous one then.
  void configure(ServiceConfig config);
  const std::string& policy() const { return config_.policy; }
  const std::map<std::string, double>& options() const { return config_.options; }

  void changed();         // jobs came, went, or can use more replicas
  TimePoint due() const;  // time of the next round, if there are jobs to schedule
  void round_if_due();    // one that fails is logged, and changes nothing

 private:
  Cluster& cluster_;
  const SchedulingFlags flags_;
  ServiceConfig config_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace adaptdl::local
