#pragma once

// By which policy the machine is shared, and when the next round is due.

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

// What the command line of `adaptdl serve` sets over the configuration.
struct SchedulingFlags {
  std::optional<std::string> policy;
  std::map<std::string, double> options;  // only with `policy`
};

class Scheduling {
 public:
  // Borrows the cluster for its life. Throws Error for what the configuration does not allow.
  Scheduling(Cluster& cluster, const ServiceConfig& config, SchedulingFlags flags);

  // Another configuration from now on, with a round at once. Throws Error, and keeps the one it
  // had.
  void configure(ServiceConfig config);
  const std::string& policy() const { return config_.policy; }
  const std::map<std::string, double>& options() const { return config_.options; }

  void changed();         // jobs came, went, or may be given more
  TimePoint due() const;  // time of the next round, if there are jobs that could be given something
  void round_if_due();

 private:
  Cluster& cluster_;
  const SchedulingFlags flags_;
  ServiceConfig config_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace adaptdl::local
