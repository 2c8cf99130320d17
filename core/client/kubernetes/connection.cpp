#include "core/client/kubernetes/connection.h"

#include "core/base/console.h"
#include "core/base/error.h"

namespace adaptdl::client {
namespace {

// A user waits at a terminal.
constexpr Seconds kRetryBudget{4};

}  // namespace

KubernetesConnection::KubernetesConnection(const ClusterChoice& choice, bool verbose,
                                           const Cancellation* cancel)
    : choice_(choice) {
  kube::ClientOptions options;
  options.cancel = cancel;
  options.retry_budget = kRetryBudget;
  if (verbose) options.trace = [](const std::string& line) { talk(line); };
  client_ = std::make_unique<kube::Client>(kubernetes_config(choice), options);
}

std::string KubernetesConnection::name() const {
  const std::string& context = client_->config().context;
  return context.empty() || context == choice_.name ? choice_.name
                                                    : fmt::format("{} ({})", choice_.name, context);
}

void KubernetesConnection::lacks_field(std::string_view key) const {
  fail("cluster {}: its AdaptDLJobs have no spec.{}; run `adaptdl upgrade`", name(), key);
}

void KubernetesConnection::unreachable(const HttpError& error) const {
  throw Error(
      fmt::format("cluster {} (by {}) is unreachable: {}; to use this machine instead, set "
                  "`--cluster local`",
                  name(), choice_.by, error.what()));
}

void KubernetesConnection::refused(const kube::ApiError& error) const {
  // For an unknown path the server's answer names no object.
  if (error.not_found() && error.status().name.empty()) {
    throw Error(
        fmt::format("cluster {} has no definition of AdaptDLJobs; run `adaptdl install`, or use "
                    "this machine with `--cluster local`",
                    name()));
  }
  throw Error(fmt::format("cluster {}: {}", name(), error.what()), error.exit_code());
}

}  // namespace adaptdl::client
