#pragma once

// Leader election in a thread of its own, by a Lease of the cluster (leader_lease.h).

#include <mutex>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/cluster/kubernetes/leader_lease.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

class LeaderElection {
 public:
  // Begins. Takes `client`'s configuration for requests of its own, which wait for no others.
  LeaderElection(kube::Client& client, std::string lease_namespace, std::string lease_name,
                 LeaderLeaseOptions options);
  // Gives the lease back, so that the next one need not wait; within about a second, or not.
  ~LeaderElection();
  LeaderElection(const LeaderElection&) = delete;
  LeaderElection& operator=(const LeaderElection&) = delete;

  bool leads() const;  // any thread

 private:
  void run();
  void look();
  void release();

  Cancellation stop_;  // ends requests, too
  kube::Client client_;
  const kube::Resource lease_;
  const LeaderLeaseOptions options_;
  mutable std::mutex mutex_;  // of known_
  LeaderLease known_;
  std::string said_;  // the last problem
  std::thread thread_;
};

}  // namespace adaptdl::kubernetes
