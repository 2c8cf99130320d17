#pragma once

// The supervisor over HTTPS, for launchers in pods and programs of the runtime library. Programs of
// AdaptDL's Python client speak only HTTP, and use the other one.

#include <memory>
#include <mutex>
#include <string>

#include "core/cluster/kubernetes/certificates/certificate_keeper.h"
#include "core/sched/supervisor.h"

namespace adaptdl::kubernetes {

struct SecureSupervisorOptions {
  std::string name_space;  // of the Secret with its certificates
  std::string address = "*";
  uint16_t port = 0;                       // 0: any free one
  double certificate_life_s = 90 * 86400;  // > 0
};

class SecureSupervisor {
 public:
  // Serves when the constructor returns. Borrows both. Throws Error if it cannot get certificates
  // or cannot listen.
  SecureSupervisor(kube::Client& client, SupervisorBackend& jobs,
                   const SecureSupervisorOptions& options);
  ~SecureSupervisor();
  SecureSupervisor(const SecureSupervisor&) = delete;
  SecureSupervisor& operator=(const SecureSupervisor&) = delete;

  uint16_t port() const { return supervisor_.port(); }
  // PEM: whom new pods are to trust. Outlives their lives by far: a running pod is never told
  // another. Any thread.
  std::string authorities() const;
  void changed() { supervisor_.changed(); }
  void stop(Seconds grace);

 private:
  void use(const ServerCertificates& certificates);

  CertificateKeeper keeper_;
  mutable std::mutex mutex_;    // of serving_
  ServerCertificates serving_;  // written by use() only
  Supervisor supervisor_;
};

}  // namespace adaptdl::kubernetes
