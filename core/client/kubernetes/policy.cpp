#include "core/client/kubernetes/policy.h"

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/cluster/kubernetes/install/installation.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/formats/json_fields.h"
#include "core/kube/informer.h"

namespace adaptdl::client {
namespace {

// The objects of an installation that contain its policy.
const std::string kKeeper = fmt::format("ConfigMap {}", kubernetes::kConfigMap);
const std::string kOperator = fmt::format("Deployment {}", kubernetes::kDeployment);

}  // namespace

KubernetesPolicy::KubernetesPolicy(const ClusterChoice& cluster, bool verbose)
    : cluster_(cluster, verbose) {
  cluster_.reach([&] {
    const auto found = kubernetes::installed_in(cluster_.client());
    if (!found) {
      fail("cluster {}: no operator is installed; run `adaptdl install`", cluster_.name());
    }
    name_space_ = *found;
    given_ = kubernetes::installed_values(cluster_.client(), name_space_);
  });
}

PolicyChoice KubernetesPolicy::choice() const {
  const kubernetes::Values values = kubernetes::read_values(given_);
  return {values.policy, values.policy_options, "operator"};
}

void KubernetesPolicy::set(const PolicyChoice& wanted) {
  given_["sched"]["policy"] = wanted.name;
  given_["sched"]["policyOptions"] = wanted.options;
  cluster_.reach([&] {
    kube::Client& client = cluster_.client();
    const Json deployment = client.get(kube::kDeployments.in(name_space_, kubernetes::kDeployment));
    const std::string installed =
        text_at_pointer(deployment, "/metadata/labels/app.kubernetes.io~1version");
    if (installed != version()) {
      fail(
          "cluster {} has the operator of adaptdl {}, but this is {}; to set the policy and "
          "upgrade the operator, run `adaptdl upgrade --set sched.policy={}`",
          cluster_.name(), installed, version(), wanted.name);
    }
    const kubernetes::Values values = kubernetes::read_values(given_);
    for (const Json& object : kubernetes::manifests(values, name_space_, given_, version())) {
      const std::string what = kubernetes::describe_object(object);
      if (what != kKeeper && what != kOperator) continue;
      kubernetes::carry_out(client, {kubernetes::ObjectChange::What::change, object, {}});
    }
  });
}

}  // namespace adaptdl::client
