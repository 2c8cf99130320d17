#include "core/client/policy_choice.h"

#include "core/base/error.h"
#include "core/client/cluster_choice.h"
#include "core/client/kubernetes/policy.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/config.h"
#include "core/formats/json.h"

namespace adaptdl::client {

PolicyChoice configured_policy() {
  const local::ServiceConfig config = local::read_service_config(local::config_path());
  return {config.policy, config.options, local::config_path()};
}

PolicyChoice present_policy(const ClusterChoice& cluster, bool verbose) {
  if (!cluster.local()) return KubernetesPolicy(cluster, verbose).choice();
  if (!local::service_runs()) return configured_policy();
  const Json hello = local::request_service({{"request", "hello"}});
  PolicyChoice result{json_get<std::string>(hello, "policy", "service"), {}, "service"};
  const Json options = json_get_or<Json>(hello, "options", "service", Json::object());
  for (const auto& [name, value] : options.items()) {
    if (value.is_number()) result.options[name] = value.get<double>();
  }
  return result;
}

const PolicyInfo& info_of(const PolicyChoice& policy) {
  for (const PolicyInfo& known : policies()) {
    if (known.name == policy.name) return known;
  }
  fail("the {} uses policy {}, which this version of adaptdl does not know", policy.by,
       policy.name);
}

double value_of(const PolicyOption& option, const PolicyChoice& policy) {
  const auto given = policy.options.find(std::string(option.name));
  return given == policy.options.end() ? option.fallback : given->second;
}

}  // namespace adaptdl::client
