#pragma once

// Keeps a server's certificates in a Secret that all operators share. Each operator renews the
// Secret in time, guarded by its version, and uses what is there.

#include <functional>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/cluster/kubernetes/certificates/certificates.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

struct KeeperOptions {
  std::string name_space, secret;  // of the Secret
  CertificateNeeds needs;
};

class CertificateKeeper {
 public:
  // Called on the keeper's thread, at the start and then again and again, with the certificates to
  // serve from now on. If it throws, the reason is logged, and it is called again soon.
  using Use = std::function<void(const ServerCertificates&)>;

  // Borrows `client`. Reads the Secret, or creates it. Throws Error if it cannot.
  CertificateKeeper(kube::Client& client, KeeperOptions options);
  ~CertificateKeeper();
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  const ServerCertificates& first() const { return first_; }  // as the constructor found them

  void start(Use use);  // once
  void stop();          // `use` is not called again; may be called twice

 private:
  ServerCertificates current();
  void keep(const Use& use);

  kube::Client& client_;
  const KeeperOptions options_;
  const ServerCertificates first_;
  Cancellation stop_;
  std::thread thread_;
};

}  // namespace adaptdl::kubernetes
