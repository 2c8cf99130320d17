#include "core/client/kubernetes/connection.h"

#include "core/base/console.h"
#include "core/base/error.h"

namespace adaptdl::client {
namespace {

// Somebody waits at a terminal.
constexpr Seconds kRetryBudget{4};

}  // namespace

KubernetesConnection::KubernetesConnection(const ClusterChoice& choice, bool verbose)
    : choice_(choice) {
  kube::ClientOptions options;
  options.retry_budget = kRetryBudget;
  if (verbose) options.trace = [](const std::string& line) { talk(line); };
  client_ = std::make_unique<kube::Client>(kubernetes_config(choice), options);
}

std::string KubernetesConnection::name() const {
  const std::string& context = client_->config().context;
  return context.empty() || context == choice_.name ? choice_.name
                                                    : fmt::format("{} ({})", choice_.name, context);
}

void KubernetesConnection::unreachable(const HttpError& error) const {
  throw Error(
      fmt::format("cluster {} (by {}) cannot be reached: {}; `--cluster local` uses this "
                  "machine instead",
                  name(), choice_.by, error.what()));
}

void KubernetesConnection::refused(const kube::ApiError& error) const {
  // Of a path that the server does not know, it names no object.
  if (error.not_found() && error.status().name.empty()) {
    throw Error(
        fmt::format("cluster {} does not know AdaptDLJobs: `adaptdl install` sets it up; "
                    "`--cluster local` uses this machine instead",
                    name()));
  }
  throw Error(fmt::format("cluster {}: {}", name(), error.what()), error.exit_code());
}

}  // namespace adaptdl::client
