#pragma once

// Stands for election in a thread of its own (election.h), by a Lease of the cluster.

#include <mutex>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/cluster/kubernetes/election.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

class Elector {
 public:
  // Begins. Takes `client`'s configuration for requests of its own, which wait for no others.
  Elector(kube::Client& client, std::string lease_namespace, std::string lease_name,
          ElectionOptions options);
  // Gives the lease back, so that the next one need not wait; within about a second, or not.
  ~Elector();
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  bool leads() const;  // any thread

 private:
  void run();
  void look();
  void release();

  Cancellation stop_;  // ends requests, too
  kube::Client client_;
  const kube::Resource lease_;
  const ElectionOptions options_;
  mutable std::mutex mutex_;  // of election_
  Election election_;
  std::string said_;  // the last problem
  std::thread thread_;
};

}  // namespace adaptdl::kubernetes
