#include "core/cluster/kubernetes/secure_supervisor.h"

#include <algorithm>

#include "core/cluster/kubernetes/install/manifests.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kYear = 365.0 * 86400;
constexpr double kAuthorityLife = 20 * kYear;  // s; no pod lives as long

HttpServerOptions listening(const SecureSupervisorOptions& options,
                            const ServerCertificates& certificates) {
  return {.address = options.address, .port = options.port, .tls = tls_of(certificates)};
}

}  // namespace

SecureSupervisor::SecureSupervisor(kube::Client& client, SupervisorBackend& jobs,
                                   const SecureSupervisorOptions& options)
    : keeper_(client, {options.name_space,
                       kSupervisorSecret,
                       {"adaptdl supervisor",
                        {kSupervisorHost},
                        options.certificate_life_s,
                        std::max(kAuthorityLife, 2 * options.certificate_life_s)}}),
      serving_(keeper_.first()),
      supervisor_(jobs, listening(options, serving_)) {
  keeper_.start([this](const ServerCertificates& now) { use(now); });
}

SecureSupervisor::~SecureSupervisor() {
  keeper_.stop();
}

std::string SecureSupervisor::authorities() const {
  const std::lock_guard lock(mutex_);
  return serving_.authorities;
}

void SecureSupervisor::stop(Seconds grace) {
  keeper_.stop();
  supervisor_.stop(grace);
}

void SecureSupervisor::use(const ServerCertificates& certificates) {
  if (certificates == serving_) return;
  supervisor_.set_tls(tls_of(certificates));
  const std::lock_guard lock(mutex_);
  serving_ = certificates;
}

}  // namespace adaptdl::kubernetes
