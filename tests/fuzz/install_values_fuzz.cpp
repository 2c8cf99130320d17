// The values of an installation, from a file or from the cluster, and what is made of them.

#include "core/base/error.h"
#include "core/cluster/kubernetes/install/install_diff.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/cluster/kubernetes/install/values.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

// U+FFFD, which JSON has in place of what is not UTF-8 in YAML: such values are not stored as
// given.
constexpr std::string_view kReplaced = "\xef\xbf\xbd";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const YamlNode root = parse_yaml(fuzz_text(data, size), "fuzz");
    const Values values = read_values(root);
    // Stored values mean the same.
    const Json given = values_json(root);
    if (dump_json(given).find(kReplaced) != std::string::npos) return 0;
    const Values kept = read_values(given);
    ADAPTDL_CHECK(kept.image() == values.image() && kept.policy == values.policy);
    ADAPTDL_CHECK(merged_values(Json::object(), given) == merged_values(given, Json::object()));
    if (values.image().empty()) return 0;
    const std::vector<Json> made = manifests(values, "team", given, "1");
    ADAPTDL_CHECK(made == manifests(kept, "team", given, "1"));
    for (const Json& object : made) {
      resource_of(object);
      ADAPTDL_CHECK(changed_fields(object, object).empty());
      changed_fields(made.back(), object);
    }
  } catch (const Error&) {
    // refused
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"(image: {repository: r.io/a, tag: 1.10, pullPolicy: Always, secrets: {name: s}}
sched:
  replicas: 2
  resources: {requests: {cpu: 100m}, limits: {cpu: 50m, memory: 1Gi}}
  policy: pollux
  policyOptions: {restart_cost: 1}
  interval: 30s
tolerations: [{key: a, operator: Exists}]
job:
  defaultResources: {limits: {cpu: 2}}
  patch: {pods: '[{"op":"add","path":"/spec/x","value":1}]'}
)",
           R"(image: {repository: r, digest: "sha256:1"}
metrics:
  service: {type: NodePort, port: 9091, nodePort: 30000}
  serviceMonitor: {enabled: true, interval: 5s, selector: {release: null}}
  prometheusRule: {enabled: true}
dashboard: {create: true}
supervisor: {service: {targetPort: 1}}
docker-registry:
  enabled: true
  persistence: {enabled: true, size: 1Gi, storageClass: "-"}
autoscaling: {minNodes: 1, maxNodes: 3, image: pause, podSpec: {tolerations: null}}
webhook: {failurePolicy: Fail, certificateLifetime: 1h}
)",
           R"({"image":{"repository":"r"},"job":{"jobPatch":{"containerPatch":[]}}})"},
          {"image: {repository: r}\n",
           "null",
           "~",
           "{",
           "}",
           "[",
           "]",
           ": ",
           "- ",
           "\n",
           "\n  ",
           "requests: {",
           "limits: {",
           "1e308",
           "-1",
           "99999999999",
           "'[1]'",
           "1Ki",
           "0.0001",
           "&a ",
           "*a",
           "!!str ",
           "\"\\u0000\""}};
}
