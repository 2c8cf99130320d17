#pragma once

// Leader election in a thread of its own, with a Lease of the cluster (leader_lease.h).

#include <mutex>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/cluster/kubernetes/leader_lease.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

class LeaderElection {
 public:
  // Starts the election. Copies `client`'s configuration for its own requests, which wait for no
  // others.
  LeaderElection(kube::Client& client, const std::string& lease_namespace,
                 const std::string& lease_name, LeaderLeaseOptions options);
  // Tries to release the lease within about a second, so that the next leader need not wait.
  ~LeaderElection();
  LeaderElection(const LeaderElection&) = delete;
  LeaderElection& operator=(const LeaderElection&) = delete;

  bool leads() const;  // any thread

 private:
  void run();
  void look();
  void release();

  Cancellation stop_;  // cancels requests, too
  kube::Client client_;
  const kube::Resource lease_;
  const LeaderLeaseOptions options_;
  mutable std::mutex mutex_;  // of known_
  LeaderLease known_;
  std::string said_;  // the last logged problem
  std::thread thread_;
};

}  // namespace adaptdl::kubernetes
