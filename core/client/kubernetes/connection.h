#pragma once

// The connection of commands to a Kubernetes cluster.

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/client/cluster_choice.h"
#include "core/kube/client.h"
#include "core/kube/resource.h"

namespace adaptdl::client {

inline const kube::Resource kAdaptDLJobs{"adaptdl.petuum.com", "v1", "adaptdljobs", "", "", ""};

// Thread-safe after construction.
class KubernetesConnection {
 public:
  // Reads the kubeconfig; sends no request yet. `verbose`: logs each request. `cancel`: ends every
  // request.
  KubernetesConnection(const ClusterChoice& choice, bool verbose,
                       const Cancellation* cancel = nullptr);

  kube::Client& client() { return *client_; }
  const std::string& name_space() const { return client_->config().name_space; }
  // "lab", or "kubernetes (lab)", for messages.
  std::string name() const;

  kube::Resource jobs(std::string_view name = "") const {
    return kAdaptDLJobs.in(name_space(), name);
  }
  kube::Resource pods(std::string_view name = "") const {
    return kube::kPods.in(name_space(), name);
  }

  // Throws Error: the cluster's definition of our jobs, which is older, has no such field, and an
  // API server drops fields that it does not know.
  [[noreturn]] void lacks_field(std::string_view key) const;

  // Returns what `act` returns. If the cluster is unreachable or has no definition of our jobs, the
  // Error says what to do.
  template <typename Act>
  auto reach(Act act) -> std::invoke_result_t<Act> {
    try {
      return act();
    } catch (const HttpError& error) {
      unreachable(error);
    } catch (const kube::ApiError& error) {
      refused(error);
    }
  }

 private:
  [[noreturn]] void unreachable(const HttpError& error) const;
  [[noreturn]] void refused(const kube::ApiError& error) const;

  const ClusterChoice choice_;
  std::unique_ptr<kube::Client> client_;
};

}  // namespace adaptdl::client
