#pragma once

// A Kubernetes cluster as commands reach it.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "core/client/cluster_choice.h"
#include "core/kube/client.h"
#include "core/kube/resource.h"

namespace adaptdl::client {

inline const kube::Resource kAdaptDLJobs{"adaptdl.petuum.com", "v1", "adaptdljobs", "", "", ""};

// Thread-safe once made.
class KubernetesConnection {
 public:
  // Reads the kubeconfig; asks nothing of the cluster yet. `verbose`: tells each request.
  KubernetesConnection(const ClusterChoice& choice, bool verbose);

  kube::Client& client() { return *client_; }
  const std::string& name_space() const { return client_->config().name_space; }
  // "lab", or "kubernetes (lab)": for people.
  std::string name() const;

  kube::Resource jobs(std::string_view name = "") const {
    return kAdaptDLJobs.in(name_space(), name);
  }
  kube::Resource pods(std::string_view name = "") const {
    return kube::kPods.in(name_space(), name);
  }

  // What `act` returns. A cluster that cannot be reached, and one that does not know our jobs, are
  // told with what to do.
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
