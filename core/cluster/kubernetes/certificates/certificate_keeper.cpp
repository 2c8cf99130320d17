#include "core/cluster/kubernetes/certificates/certificate_keeper.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/cluster/kubernetes/install/manifests.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kLooks = 30;                           // in the life of a certificate
constexpr double kShortestLook = 1, kLongestLook = 60;  // s

}  // namespace

CertificateKeeper::CertificateKeeper(kube::Client& client, KeeperOptions options)
    : client_(client), options_(std::move(options)), first_(current()) {}

CertificateKeeper::~CertificateKeeper() {
  stop();
}

void CertificateKeeper::start(Use use) {
  ADAPTDL_CHECK(!thread_.joinable());
  thread_ = std::thread([this, use = std::move(use)] { keep(use); });
}

void CertificateKeeper::stop() {
  stop_.cancel();
  if (thread_.joinable()) thread_.join();
}

// If another operator writes at the same time, the API server refuses one of the writes, and that
// operator reads the Secret again.
ServerCertificates CertificateKeeper::current() {
  const kube::Resource place = kube::kSecrets.in(options_.name_space, options_.secret);
  for (;;) {
    std::optional<Json> found = client_.find(place);
    std::optional<ServerCertificates> have;
    if (found) have = from_secret_data(found->value("data", Json::object()));
    const auto next = renewed(have, options_.needs, wall_now_s());
    if (!next) return *have;
    try {
      if (found) {
        (*found)["data"] = secret_data(*next);
        client_.update(place, *found);
      } else {
        client_.create(kube::kSecrets.in(options_.name_space),
                       {{"apiVersion", "v1"},
                        {"kind", "Secret"},
                        {"type", "Opaque"},
                        {"metadata",
                         {{"name", place.name},
                          {"namespace", place.name_space},
                          {"labels", {{kLabelInstalled, options_.name_space}}}}},
                        {"data", secret_data(*next)}});
      }
      log_info("{}: created a certificate", options_.secret);
      return *next;
    } catch (const kube::ApiError& error) {
      if (!error.conflict() && !error.already_exists()) throw;
    }
  }
}

void CertificateKeeper::keep(const Use& use) {
  const double pause = std::clamp(options_.needs.life_s / kLooks, kShortestLook, kLongestLook);
  std::string said;
  bool used = false;
  do {
    std::string problem;
    try {
      use(current());
      used = true;
    } catch (const Cancelled&) {
      return;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (!problem.empty() && problem != said) log_warning("{}: {}", options_.secret, problem);
    said = problem;
  } while (!stop_.wait_for(Seconds(used ? pause : kShortestLook)));
}

}  // namespace adaptdl::kubernetes
