#include "core/cluster/kubernetes/install/manifests.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <regex>
#include <set>

#include "core/cluster/kubernetes/install/install_diff.h"
#include "core/cluster/kubernetes/install/manifest_files.h"
#include "core/cluster/kubernetes/metrics.h"
#include "core/formats/yaml.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

Values values_of(const std::string& text) {
  return read_values(parse_yaml(text, "values.yaml"));
}

std::vector<Json> objects_of(const std::string& text) {
  return manifests(values_of(text), "lab", Json::object(), "1.2.3");
}

const std::string kImage = "image: {repository: r.example/adaptdl, tag: '1'}\n";

const Json& find(const std::vector<Json>& objects, const std::string& kind,
                 const std::string& name) {
  for (const Json& object : objects) {
    if (object["kind"] == kind && object["metadata"]["name"] == name) return object;
  }
  FAIL("there is no ", kind, " ", name);
  return objects.front();
}

bool has_kind(const std::vector<Json>& objects, const std::string& kind) {
  return std::any_of(objects.begin(), objects.end(),
                     [&](const Json& object) { return object["kind"] == kind; });
}

Json operator_pod(const std::vector<Json>& objects) {
  return find(objects, "Deployment", kDeployment)["spec"]["template"];
}

// The value that follows `flag`; "" if it is not given.
std::string argument(const std::vector<Json>& objects, const std::string& flag) {
  const Json arguments = operator_pod(objects)["spec"]["containers"][0]["args"];
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == flag) return arguments[i + 1];
  }
  return "";
}

void no_blanks(const Json& node) {
  if (node.is_string()) CHECK(!node.get<std::string>().starts_with("${"));
  CHECK(!node.is_null());
  if (node.is_structured()) {
    for (const Json& item : node) no_blanks(item);
  }
}

}  // namespace

TEST_CASE("placeholders are there if nodes may be added") {
  CHECK_FALSE(has_kind(objects_of(kImage), "PriorityClass"));
  CHECK(argument(objects_of(kImage), "--max-nodes").empty());
  const auto objects =
      objects_of(kImage +
                 "tolerations: [{key: gpu, operator: Exists}]\n"
                 "autoscaling: {minNodes: 1, maxNodes: 8, image: 'r.example/pause:1',\n"
                 "  scaleDownDelay: 5m, podSpec: {nodeSelector: {pool: gpus}}}\n");
  CHECK(argument(objects, "--min-nodes") == "1");
  CHECK(argument(objects, "--max-nodes") == "8");
  CHECK(argument(objects, "--placeholder-image") == "r.example/pause:1");
  CHECK(argument(objects, "--expander-interval") == "30s");
  CHECK(argument(objects, "--scale-down-delay") == "5m");
  const Json spec = Json::parse(argument(objects, "--placeholder-spec"));
  const Json priority = find(objects, "PriorityClass", spec["priorityClassName"]);
  CHECK(priority["value"] == -10);
  CHECK(spec["tolerations"][0]["key"] == "gpu");
  CHECK(spec["nodeSelector"]["pool"] == "gpus");
  // The class is there before the operator uses it.
  const auto place = [&](const std::string& kind) {
    return std::find_if(objects.begin(), objects.end(),
                        [&](const Json& object) { return object["kind"] == kind; });
  };
  CHECK(place("PriorityClass") < place("Deployment"));

  CHECK_ERROR(values_of("autoscaling: {maxNodes: 2}"), "image");
  CHECK_ERROR(values_of("autoscaling: {minNodes: 3, maxNodes: 2, image: a}"), "minNodes");
}

TEST_CASE("all blanks are filled, and each object has a place and says whose it is") {
  const auto objects = objects_of(kImage +
                                  "docker-registry: {enabled: true}\n"
                                  "metrics: {serviceMonitor: {enabled: true, interval: 30s}}\n");
  std::set<std::string> places;
  for (const Json& object : objects) {
    no_blanks(object);
    CHECK(places.insert(resource_of(object).path()).second);
    CHECK(object["metadata"]["labels"][kLabelInstalled] == "lab");
    const std::string space = object["metadata"].value("namespace", "lab");
    CHECK(space == "lab");
  }
  CHECK(objects[0]["kind"] == "Namespace");
  CHECK(objects[1]["metadata"]["name"] == kDefinition);
  CHECK(objects.back()["kind"] == "ValidatingWebhookConfiguration");
  CHECK_FALSE(find(objects, "ConfigMap", kConfigMap)["data"].contains(kClientAuthoritiesKey));
  CHECK(find(objects, "ServiceMonitor",
             "adaptdl-adaptdl-sched")["spec"]["endpoints"][0]["interval"] == "30s");
  const Json registry = find(objects, "Service", "adaptdl-registry");
  CHECK(registry["metadata"]["labels"]["app"] == "docker-registry");
  CHECK(registry["spec"]["ports"][0]["name"] == "registry");
  CHECK(registry["spec"]["ports"][0]["nodePort"] == 32000);
  const Json containers =
      find(objects, "Deployment", "adaptdl-registry")["spec"]["template"]["spec"]["containers"];
  REQUIRE(containers.size() == 2);  // nodes and pods reach the first one
  CHECK(containers[0]["volumeMounts"][0]["readOnly"] == true);
  CHECK(containers[0]["env"][1]["value"] == "{enabled: true}");
  CHECK(containers[1]["env"][1]["value"] == "127.0.0.1:5001");
  CHECK(containers[1]["ports"][0] == Json({{"name", "push"}, {"containerPort", 5001}}));
}

TEST_CASE("the registry's images are in its pod, or in a volume that outlives the installation") {
  const std::string enabled = kImage + "docker-registry: {enabled: true, persistence: ";
  const auto volume = [](const std::vector<Json>& objects) {
    return find(objects, "Deployment", "adaptdl-registry")["spec"]["template"]["spec"]["volumes"];
  };
  CHECK(volume(objects_of(enabled + "{}}")) ==
        Json::parse(R"([{"name": "data", "emptyDir": {}}])"));
  CHECK_FALSE(has_kind(objects_of(enabled + "{size: 1Gi}}"), "PersistentVolumeClaim"));
  CHECK_FALSE(has_kind(objects_of(kImage + "docker-registry: {persistence: {enabled: true}}"),
                       "PersistentVolumeClaim"));

  const auto objects = objects_of(enabled + "{enabled: true, size: 50Gi, storageClass: fast}}");
  CHECK(volume(objects) == Json::parse(R"([{"name": "data", "persistentVolumeClaim":
                                            {"claimName": "adaptdl-registry"}}])"));
  const Json claim = find(objects, "PersistentVolumeClaim", "adaptdl-registry");
  CHECK(claim["spec"] == Json::parse(R"({"accessModes": ["ReadWriteOnce"],
      "resources": {"requests": {"storage": "50Gi"}}, "storageClassName": "fast"})"));
  CHECK(claim["metadata"]["namespace"] == "lab");
  CHECK_FALSE(claim["metadata"]["labels"].contains(kLabelInstalled));
  const auto class_of = [&](const std::string& more) {
    return find(objects_of(enabled + "{enabled: true" + more + "}}"), "PersistentVolumeClaim",
                "adaptdl-registry")["spec"]
        .value("storageClassName", "default");
  };
  CHECK(class_of("") == "default");
  CHECK(class_of(", storageClass: '-'") == "");  // as the registry's chart has it
  CHECK_ERROR(values_of("docker-registry: {persistence: {size: large}}"),
              "docker-registry.persistence.size: large");
  CHECK_ERROR(values_of("docker-registry: {persistence: {size: 0}}"), "must be greater than 0");
}

TEST_CASE("what is off by default is not there") {
  const auto objects = objects_of(kImage);
  CHECK(!has_kind(objects, "ServiceMonitor"));
  for (const Json& object : objects) CHECK(object["metadata"]["name"] != "adaptdl-registry");
}

TEST_CASE("dashboard and alerts speak of series that there are") {
  const std::string told = metrics_text({}, {}, true, true);
  const auto known = [&](const std::string& name) {
    return told.find("# TYPE " + name + " ") != std::string::npos;
  };
  const std::regex series("\\b(adaptdl|rest_client)_[a-z_]+");
  int found = 0;
  for (const char* file : {"dashboard.json", "alerts.yaml"}) {
    const std::string text(manifest_file(file));
    for (std::sregex_iterator it(text.begin(), text.end(), series), end; it != end; ++it) {
      INFO(file, ": ", it->str());
      CHECK(known(it->str()));
      ++found;
    }
  }
  CHECK(found > 20);
  const auto objects = objects_of(kImage +
                                  "dashboard: {create: true}\n"
                                  "metrics: {prometheusRule: {enabled: true}}\n");
  const Json board = Json::parse(
      find(objects, "ConfigMap", "adaptdl-dashboard")["data"]["adaptdl.json"].get<std::string>());
  CHECK(board["panels"].size() == 16);
  const Json rules = find(objects, "PrometheusRule", "adaptdl");
  for (const Json& rule : rules["spec"]["groups"][0]["rules"]) {
    CHECK(!rule["annotations"]["description"].get<std::string>().empty());
  }
}

TEST_CASE("no role has a wildcard, and the operator cannot read others' secrets") {
  for (const Json& object : objects_of(kImage)) {
    if (!object.contains("rules")) continue;
    for (const Json& rule : object["rules"]) {
      CHECK(rule.dump().find('*') == std::string::npos);
      CHECK(!rule["verbs"].empty());
      const bool secrets = rule["resources"] == Json::array({"secrets"});
      if (secrets && rule["verbs"] != Json::array({"create"})) {
        CHECK(object["kind"] == "Role");
        CHECK(!rule["resourceNames"].empty());
      }
    }
  }
}

TEST_CASE("with namespaces of jobs, the operator may change only these and its own") {
  const auto everywhere = objects_of(kImage);
  CHECK(find(everywhere, "ClusterRoleBinding", "adaptdl-jobs")["roleRef"]["name"] ==
        "adaptdl-jobs");
  const auto selector = [](const std::vector<Json>& objects) {
    return find(objects, "ValidatingWebhookConfiguration", kWebhookConfiguration)["webhooks"][0]
        .value("namespaceSelector", Json());
  };
  CHECK(selector(everywhere).is_null());
  CHECK(argument(everywhere, "--job-namespace").empty());

  const auto objects = objects_of(kImage + "job: {namespaces: [team-a, '42']}\n");
  std::set<std::string> bound;
  for (const Json& object : objects) {
    const std::string kind = object["kind"], name = object["metadata"]["name"];
    CHECK((kind != "ClusterRoleBinding" || name == "adaptdl"));
    if (kind != "RoleBinding" || name != "adaptdl-jobs") continue;
    CHECK(object["roleRef"]["kind"] == "ClusterRole");
    CHECK(object["subjects"][0]["namespace"] == "lab");
    CHECK(object["metadata"]["labels"][kLabelInstalled] == "lab");
    bound.insert(object["metadata"]["namespace"]);
  }
  CHECK(bound == std::set<std::string>{"42", "lab", "team-a"});
  // What it may do everywhere is to look.
  for (const Json& rule : find(objects, "ClusterRole", "adaptdl")["rules"]) {
    const bool looks = rule["verbs"] == Json({"list", "watch"});
    CHECK((looks || rule["resources"][0] == "validatingwebhookconfigurations"));
  }
  CHECK(selector(objects)["matchExpressions"][0]["values"] == Json({"team-a", "42"}));
  CHECK(argument(objects, "--job-namespace") == "team-a");
  CHECK(values_json(parse_yaml("job: {namespaces: [42, a]}", "v"))["job"]["namespaces"] ==
        Json({"42", "a"}));
  CHECK_ERROR(values_of("job: {namespaces: [Team]}"), "must be the name of a namespace");
}

TEST_CASE("a policy ties what the operator makes to jobs") {
  const auto objects = objects_of(kImage);
  const Json spec = find(objects, "ValidatingAdmissionPolicy", "adaptdl-operator")["spec"];
  CHECK(spec["matchConditions"][0]["expression"] ==
        "request.userInfo.username == 'system:serviceaccount:lab:adaptdl'");
  CHECK(find(objects, "ValidatingAdmissionPolicyBinding", "adaptdl-operator")["spec"] ==
        Json({{"policyName", "adaptdl-operator"}, {"validationActions", {"Deny"}}}));
  CHECK_FALSE(has_kind(objects_of(kImage + "admissionPolicy: {enabled: false}"),
                       "ValidatingAdmissionPolicy"));
  // All that it may create in others' namespaces is tied.
  std::set<std::string> tied;
  for (const Json& rule : spec["matchConstraints"]["resourceRules"]) {
    if (rule["operations"] == Json({"CREATE"}))
      tied.insert(rule["resources"].begin(), rule["resources"].end());
  }
  for (const Json& rule : find(objects, "ClusterRole", "adaptdl-jobs")["rules"]) {
    for (const Json& verb : rule["verbs"]) {
      // A template is never stored, and events say nothing that is acted on.
      const std::string what = rule["resources"][0];
      if (verb != "create" || what == "podtemplates" || what == "events") continue;
      CHECK(tied.contains(what));
    }
  }
}

TEST_CASE("who may reach the operators") {
  const auto rules = [](const std::vector<Json>& objects) {
    return find(objects, "NetworkPolicy", "adaptdl-operator")["spec"]["ingress"];
  };
  CHECK_FALSE(rules(objects_of(kImage))[2].contains("from"));
  const auto objects = objects_of(
      kImage + "metrics: {from: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}\n" +
      "webhook: {clientCA: PEM}\n" + "supervisor: {service: {httpsPort: 8445}}\n");
  CHECK(rules(objects)[2]["ports"][0]["port"] == "metrics");
  CHECK(rules(objects)[2]["from"][0]["namespaceSelector"]["matchLabels"]["name"] == "monitoring");
  CHECK_ERROR(values_of("metrics: {from: all}"), "must be a list");
  CHECK(argument(objects, "--webhook-client-ca") == "/etc/adaptdl/webhook-client-ca.crt");
  CHECK(find(objects, "ConfigMap", kConfigMap)["data"][kClientAuthoritiesKey] == "PEM");
  CHECK(argument(objects, "--supervisor-https-url") == "https://adaptdl-supervisor.lab.svc:8445");
  const Json port = find(objects, "Service", "adaptdl-supervisor")["spec"]["ports"][1];
  CHECK(port["port"] == 8445);
  const Json ports = operator_pod(objects)["spec"]["containers"][0]["ports"];
  CHECK(std::any_of(ports.begin(), ports.end(), [&](const Json& one) {
    return one["name"] == port["targetPort"] && std::to_string(one["containerPort"].get<int>()) ==
                                                    argument(objects, "--supervisor-https-port");
  }));
  CHECK_ERROR(values_of("supervisor: {service: {port: 8443}}"), "port and httpsPort are the same");
  CHECK_ERROR(values_of("metrics: {service: {httpsPort: 1}}"), "metrics.service.httpsPort");
}

TEST_CASE("the operators' pods keep to the restricted security level") {
  const auto objects = objects_of(kImage);
  CHECK(find(objects, "Namespace",
             "lab")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted");
  const Json spec = operator_pod(objects)["spec"];
  CHECK(spec["securityContext"]["runAsNonRoot"] == true);
  CHECK(spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault");
  const Json container = spec["containers"][0];
  CHECK(container["securityContext"]["allowPrivilegeEscalation"] == false);
  CHECK(container["securityContext"]["readOnlyRootFilesystem"] == true);
  CHECK(container["securityContext"]["capabilities"]["drop"] == Json::array({"ALL"}));
  CHECK(container["resources"]["requests"].contains("memory"));
  CHECK(container["resources"]["limits"].contains("memory"));
  for (const char* probe : {"startupProbe", "livenessProbe", "readinessProbe"}) {
    CHECK(container[probe]["httpGet"]["port"] == "metrics");
  }
  CHECK(spec["serviceAccountName"] == "adaptdl");
  CHECK(spec["topologySpreadConstraints"].size() == 1);
}

TEST_CASE("two replicas, of which one may be disrupted; services and budget find their pods") {
  const auto objects = objects_of(kImage);
  const Json deployment = find(objects, "Deployment", kDeployment);
  const Json labels = deployment["spec"]["template"]["metadata"]["labels"];
  CHECK(deployment["spec"]["replicas"] == 2);
  CHECK(deployment["spec"]["selector"]["matchLabels"] == labels);
  CHECK(find(objects, "PodDisruptionBudget", kDeployment)["spec"]["selector"]["matchLabels"] ==
        labels);
  for (const char* service : {"adaptdl-supervisor", "adaptdl-validator", "adaptdl-adaptdl-sched"}) {
    CHECK(find(objects, "Service", service)["spec"]["selector"] == labels);
  }
}

TEST_CASE("an operator that goes serves until nobody is sent to it any more") {
  const auto objects = objects_of(kImage + "sched: {replicas: 1}");
  const Json deployment = find(objects, "Deployment", kDeployment)["spec"];
  CHECK(deployment["replicas"] == 1);
  // Of one, none may go before the next is ready.
  CHECK(deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == "50%");
  const Json container = deployment["template"]["spec"]["containers"][0];
  CHECK(container["lifecycle"]["preStop"]["exec"]["command"] ==
        Json({container["command"][0], "__storage", "--", "wait", "5"}));
}

TEST_CASE("another authority of the webhook's clients replaces the operators' pods") {
  const auto pod = [](const std::string& authority) {
    return operator_pod(objects_of(kImage + "webhook: {clientCA: '" + authority + "'}"));
  };
  CHECK(pod("one") != pod("other"));
  CHECK(pod("one") == pod("one"));
  CHECK_FALSE(operator_pod(objects_of(kImage))["metadata"].contains("annotations"));
}

TEST_CASE("operators and registry are on Linux nodes, the operators on those that are chosen") {
  const std::string registry = "docker-registry: {enabled: true}\n";
  const auto selectors = [](const std::vector<Json>& objects) {
    return Json::array({operator_pod(objects)["spec"]["nodeSelector"],
                        find(objects, "Deployment",
                             "adaptdl-registry")["spec"]["template"]["spec"]["nodeSelector"]});
  };
  const Json linux = {{"kubernetes.io/os", "linux"}};
  CHECK(selectors(objects_of(kImage + registry)) == Json::array({linux, linux}));
  const Json chosen = {
      {"kubernetes.io/os", "linux"}, {"kubernetes.io/arch", "arm64"}, {"pool", "8"}};
  CHECK(selectors(objects_of(kImage + registry +
                             "sched: {nodeSelector: {kubernetes.io/arch: arm64, pool: 8}}")) ==
        Json::array({chosen, linux}));
  CHECK(values_of("sched: {nodeSelector: {kubernetes.io/os: null}}").node_selector ==
        Json::object());
  CHECK(read_values(parse_yaml("", "v", {"sched.nodeSelector={kubernetes.io/arch: arm64}"}))
            .node_selector["kubernetes.io/arch"] == "arm64");
  CHECK_ERROR(values_of("sched: {nodeSelector: [linux]}"), "sched.nodeSelector");
  CHECK_ERROR(values_of("sched: {nodeSelector: {pool: [a]}}"), "sched.nodeSelector.pool");
}

TEST_CASE("the webhook sees jobs alone, and cannot stop them") {
  const Json hook = find(objects_of(kImage), "ValidatingWebhookConfiguration",
                         kWebhookConfiguration)["webhooks"][0];
  CHECK(hook["name"] == kWebhookName);
  CHECK(hook["clientConfig"]["service"]["name"] == kValidatorService);
  CHECK(hook["clientConfig"]["service"]["namespace"] == "lab");
  CHECK(hook["rules"].size() == 1);
  CHECK(hook["rules"][0]["resources"] == Json::array({"adaptdljobs"}));
  CHECK(hook["failurePolicy"] == "Ignore");
  CHECK(find(objects_of(kImage + "webhook: {failurePolicy: Fail}"),
             "ValidatingWebhookConfiguration",
             kWebhookConfiguration)["webhooks"][0]["failurePolicy"] == "Fail");
}

TEST_CASE("values of AdaptDL's chart") {
  const auto objects = objects_of(R"(
image: {repository: r.example/adaptdl, tag: null, digest: 'sha256:12', pullSecrets: [{name: key}]}
sched: {resources: {requests: {memory: 2Gi}}, policy: pollux, policyOptions: {fairness: 1},
        acceleratorLabel: lab.example/kind}
tolerations: []
job:
  defaultResources: {requests: {cpu: "2.0"}}
  patch: {pods: '[{"op": "add", "path": "/a", "value": 1}]', containers: [{op: remove, path: /b}]}
metrics: {service: {port: 9000, targetPort: 9001}}
supervisor: {service: {type: NodePort, port: 80, targetPort: 8081, nodePort: 30080}}
)");
  const Json spec = operator_pod(objects)["spec"];
  const Json container = spec["containers"][0];
  CHECK(container["image"] == "r.example/adaptdl@sha256:12");
  CHECK(spec["imagePullSecrets"] == Json::parse(R"([{"name": "key"}])"));
  CHECK(spec["tolerations"].empty());
  CHECK(container["resources"]["requests"] == Json({{"cpu", "100m"}, {"memory", "2Gi"}}));
  CHECK(argument(objects, "--policy") == "pollux");
  CHECK(argument(objects, "--policy-option") == "fairness=1");
  CHECK(argument(objects, "--accelerator-label") == "lab.example/kind");
  CHECK(argument(objects_of(kImage), "--accelerator-label").empty());
  CHECK(argument(objects, "--supervisor-url") == "http://adaptdl-supervisor.lab.svc:80");
  CHECK(argument(objects, "--supervisor-port") == "8081");
  CHECK(argument(objects, "--default-resources") == R"({"requests":{"cpu":"2.0","memory":"1Gi"}})");
  CHECK(argument(objects, "--patch-pods") == R"([{"op":"add","path":"/a","value":1}])");
  CHECK(argument(objects, "--patch-containers") == R"([{"op":"remove","path":"/b"}])");
  const Json service = find(objects, "Service", "adaptdl-supervisor")["spec"];
  CHECK(service["type"] == "NodePort");
  CHECK(service["ports"][0]["nodePort"] == 30080);
  CHECK(find(objects, "Service", "adaptdl-adaptdl-sched")["spec"]["ports"][0]["port"] == 9000);
}

TEST_CASE("a default gives way to what is given, where the cluster would not take both") {
  const auto resources = [](const std::string& text) {
    return values_of("sched: {resources: " + text + "}").resources;
  };
  const Json usual = Values().resources;
  // As AdaptDL's chart has it.
  CHECK(resources("{requests: {memory: 1Gi, cpu: 1}}") ==
        Json({{"requests", {{"cpu", 1}, {"memory", "1Gi"}}}}));
  CHECK(resources("{requests: {memory: 512Mi}}")["limits"] == usual["limits"]);
  CHECK(resources("{limits: {memory: 100M}}") ==
        Json({{"requests", {{"cpu", "100m"}}}, {"limits", {{"memory", "100M"}}}}));
  CHECK(resources("{limits: {cpu: 0.2}}")["requests"] == usual["requests"]);
  CHECK(values_of("job: {defaultResources: {limits: {memory: 1G}}}").default_resources ==
        Json({{"requests", {{"cpu", "1.0"}}}, {"limits", {{"memory", "1G"}}}}));
  CHECK_ERROR(resources("{requests: {cpu: 2}, limits: {cpu: 1500m}}"),
              "values.yaml:1: sched.resources: requests.cpu is above limits.cpu");
  CHECK_ERROR(resources("{requests: {memory: much}}"), "sched.resources.memory: much");
  // Null takes a default away.
  CHECK(resources("{limits: null}") == Json({{"requests", usual["requests"]}}));
  CHECK(values_of("job: {defaultResources: {requests: {memory: null}}}").default_resources ==
        Json({{"requests", {{"cpu", "1.0"}}}}));
  CHECK(values_of("metrics: {serviceMonitor: {selector: {release: null}}}").monitor.selector ==
        Json::object());
  const auto objects = objects_of(
      kImage + "autoscaling: {maxNodes: 1, image: pause, podSpec: {tolerations: null}}\n");
  CHECK_FALSE(Json::parse(argument(objects, "--placeholder-spec")).contains("tolerations"));
}

TEST_CASE("wrong values are told with their place") {
  CHECK_ERROR(values_of("sched: {replica: 2}"), "values.yaml:1: sched.replica");
  CHECK_ERROR(values_of("sched: {replicas: 0}"), "sched.replicas");
  CHECK_ERROR(values_of("sched: {interval: soon}"), "sched.interval");
  CHECK_ERROR(values_of("tolerations: {a: b}"), "tolerations");
  CHECK_ERROR(values_of("job: {patch: {pods: '{}'}}"), "job.patch.pods");
  CHECK_ERROR(values_of("supervisor: {service: {port: 70000}}"), "supervisor.service.port");
  CHECK_ERROR(values_of("webhook: {failurePolicy: Perhaps}"), "webhook.failurePolicy");
  CHECK(values_of("").image() == "");
  CHECK(values_of("image: {repository: a}").image() == "a");
}

TEST_CASE("text that looks like a number is kept as it was written") {
  const auto kept = [](const std::string& text, const std::vector<std::string>& set = {}) {
    return values_json(parse_yaml(text, "values.yaml", set));
  };
  CHECK(kept("image: {tag: 1.10}")["image"]["tag"] == "1.10");
  CHECK(kept("image: {pullSecrets: [{name: 1e3}]}")["image"]["pullSecrets"][0]["name"] == "1e3");
  CHECK(kept("sched: {interval: 1e3}")["sched"]["interval"] == "1e3");
  CHECK(kept("", {"image.tag=1234567e8"})["image"]["tag"] == "1234567e8");  // of a commit
  CHECK(kept("image: {tag: v1, digest: a}", {"image.tag=007"}) ==
        Json({{"image", {{"tag", "007"}, {"digest", "a"}}}}));
  CHECK(kept("metrics: {serviceMonitor: {namespace: 0123}}")["metrics"]["serviceMonitor"] ==
        Json({{"namespace", "0123"}}));
  CHECK(kept("image: {tag: null, digest: }", {"image.repository=null"}) ==
        Json({{"image", {{"tag", nullptr}, {"digest", nullptr}, {"repository", nullptr}}}}));
  CHECK(kept("sched: {replicas: 3, policyOptions: {a: 0.50}}") ==
        Json({{"sched", {{"replicas", 3}, {"policyOptions", {{"a", 0.5}}}}}}));
  CHECK(kept("sched: {nodeSelector: {pool: 1.10, spot: true, kubernetes.io/os: null}}")["sched"] ==
        Json({{"nodeSelector",
               {{"pool", "1.10"}, {"spot", "true"}, {"kubernetes.io/os", nullptr}}}}));
  CHECK(kept("image: text") == Json({{"image", "text"}}));
  CHECK(kept("") == Json::object());
}

TEST_CASE("values are laid on each other") {
  CHECK(merged_values({{"a", {{"b", 1}, {"c", 2}}}}, {{"a", {{"b", 3}}}}) ==
        Json({{"a", {{"b", 3}, {"c", 2}}}}));
  CHECK(merged_values({{"a", 1}}, {{"a", nullptr}}) == Json({{"a", nullptr}}));
  CHECK(merged_values(Json(), {{"a", {{"b", nullptr}}}}) == Json({{"a", {{"b", nullptr}}}}));
  CHECK(merged_values({{"a", nullptr}}, {{"a", {{"b", 1}}}}) == Json({{"a", {{"b", 1}}}}));
  CHECK(merged_values(Json(), Json()) == Json::object());
}

TEST_CASE("what differs is told by its path, without what the server keeps account of") {
  const Json before = {{"metadata", {{"name", "a"}, {"resourceVersion", "1"}}},
                       {"spec", {{"replicas", 1}, {"list", {1, 2}}}},
                       {"status", {{"x", 1}}}};
  Json after = before;
  after["metadata"]["resourceVersion"] = "2";
  after["status"] = {};
  CHECK(changed_fields(before, after).empty());
  after["spec"]["replicas"] = 2;
  after["spec"]["list"][1] = 3;
  after["spec"]["more"] = true;
  CHECK(changed_fields(before, after) == std::vector<std::string>{"spec.list[1]: 2 -> 3",
                                                                  "spec.more: none -> true",
                                                                  "spec.replicas: 1 -> 2"});
}

TEST_CASE("why operators are not ready") {
  Json deployment = {{"metadata", {{"generation", 2}}},
                     {"spec", {{"replicas", 2}}},
                     {"status",
                      {{"observedGeneration", 2},
                       {"replicas", 2},
                       {"updatedReplicas", 2},
                       {"availableReplicas", 2}}}};
  CHECK(why_not_ready(deployment, {}) == "");
  deployment["status"]["observedGeneration"] = 1;  // of an older template
  CHECK(why_not_ready(deployment, {}) == "0 of 2 pods are ready");
  deployment["status"]["observedGeneration"] = 2;
  deployment["status"]["availableReplicas"] = 1;
  CHECK(why_not_ready(deployment, {}) == "1 of 2 pods are ready");
  const auto pod = [](const char* name, const char* made, const char* reason) {
    return Json{
        {"metadata", {{"name", name}, {"uid", name}, {"creationTimestamp", made}}},
        {"status",
         {{"phase", "Pending"},
          {"containerStatuses",
           Json::array({{{"name", "c"},
                         {"state", {{"waiting", {{"reason", reason}, {"message", "m"}}}}}}})}}}};
  };
  CHECK(why_not_ready(deployment, {pod("old", "2026-01-01T00:00:00Z", "CrashLoopBackOff"),
                                   pod("new", "2026-01-02T00:00:00Z", "ImagePullBackOff")}) ==
        "pod new: ImagePullBackOff: m");
  deployment["status"]["conditions"] = Json::array(
      {{{"type", "ReplicaFailure"}, {"status", "True"}, {"message", "exceeded quota"}}});
  CHECK(why_not_ready(deployment, {}) == "exceeded quota");
}
