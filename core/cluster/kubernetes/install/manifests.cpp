#include "core/cluster/kubernetes/install/manifests.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "core/base/crypto.h"
#include "core/base/number.h"
#include "core/cluster/kubernetes/install/manifest_files.h"
#include "core/formats/yaml.h"
#include "core/formats/yaml_json.h"

namespace adaptdl::kubernetes {

namespace {

constexpr int kWebhookPort = 8443, kSecureSupervisorPort = 8444;
constexpr const char* kConfigFolder = "/etc/adaptdl";  // of the operator's pods, with the ConfigMap
constexpr const char* kJobsBinding = "ClusterRoleBinding adaptdl-jobs";
constexpr const char* kPlaceholderPriority = "adaptdl-placeholder";

struct KnownKind {
  const char *kind, *group, *version, *plural;
};
constexpr std::array kKinds = {
    KnownKind{"Namespace", "", "v1", "namespaces"},
    KnownKind{"CustomResourceDefinition", "apiextensions.k8s.io", "v1",
              "customresourcedefinitions"},
    KnownKind{"ServiceAccount", "", "v1", "serviceaccounts"},
    KnownKind{"ClusterRole", "rbac.authorization.k8s.io", "v1", "clusterroles"},
    KnownKind{"ClusterRoleBinding", "rbac.authorization.k8s.io", "v1", "clusterrolebindings"},
    KnownKind{"Role", "rbac.authorization.k8s.io", "v1", "roles"},
    KnownKind{"RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"},
    KnownKind{"ConfigMap", "", "v1", "configmaps"},
    KnownKind{"Secret", "", "v1", "secrets"},
    KnownKind{"Lease", "coordination.k8s.io", "v1", "leases"},
    KnownKind{"PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"},
    KnownKind{"Service", "", "v1", "services"},
    KnownKind{"PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses"},
    KnownKind{"PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"},
    KnownKind{"NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"},
    KnownKind{"Deployment", "apps", "v1", "deployments"},
    KnownKind{"ValidatingWebhookConfiguration", "admissionregistration.k8s.io", "v1",
              "validatingwebhookconfigurations"},
    KnownKind{"ValidatingAdmissionPolicy", "admissionregistration.k8s.io", "v1",
              "validatingadmissionpolicies"},
    KnownKind{"ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "v1",
              "validatingadmissionpolicybindings"},
    KnownKind{"ServiceMonitor", "monitoring.coreos.com", "v1", "servicemonitors"},
    KnownKind{"PrometheusRule", "monitoring.coreos.com", "v1", "prometheusrules"},
};

using Blanks = std::map<std::string, Json, std::less<>>;

const Json& blank(const Blanks& blanks, std::string_view name) {
  const auto found = blanks.find(name);
  ADAPTDL_CHECK(found != blanks.end());
  return found->second;
}

// A text that is only "${name}" becomes that value, of any type; within a longer text it must be
// text.
Json filled(const std::string& text, const Blanks& blanks) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find("${", at);
    const size_t end = begin == std::string::npos ? begin : text.find('}', begin);
    if (end == std::string::npos) return result + text.substr(at);
    const Json& value = blank(blanks, std::string_view(text).substr(begin + 2, end - begin - 2));
    if (begin == 0 && end + 1 == text.size()) return value;
    result += text.substr(at, begin - at) + value.get<std::string>();
    at = end + 1;
  }
  return result;
}

// Members that are null are left out: the values do not set them.
void fill(Json& node, const Blanks& blanks) {
  if (node.is_string()) {
    node = filled(node.get_ref<const std::string&>(), blanks);
  } else if (node.is_array()) {
    for (Json& item : node) fill(item, blanks);
  } else if (node.is_object()) {
    for (auto it = node.begin(); it != node.end();) {
      fill(it.value(), blanks);
      it = it->is_null() ? node.erase(it) : std::next(it);
    }
  }
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json service_spec(const ServiceValues& service, const char* port_name) {
  Json port = {
      {"name", port_name}, {"port", service.port}, {"targetPort", port_name}, {"protocol", "TCP"}};
  if (service.node_port) port["nodePort"] = *service.node_port;
  Json ports = Json::array({port});
  if (service.https_port != 0) {
    const std::string name = fmt::format("{}-tls", port_name);
    ports.push_back(
        {{"name", name}, {"port", service.https_port}, {"targetPort", name}, {"protocol", "TCP"}});
  }
  return {{"type", service.type},
          {"selector", {{"app.kubernetes.io/name", "adaptdl-operator"}}},
          {"ports", std::move(ports)}};
}

Json operator_arguments(const Values& values, const std::string& name_space) {
  Json arguments = {"operator", "--namespace", name_space};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.push_back(flag);
    arguments.push_back(value);
  };
  add("--policy", values.policy);
  for (const auto& [name, value] : values.policy_options) {
    add("--policy-option", name + "=" + format_number(value));
  }
  add("--interval", values.interval);
  if (!values.accelerator_label.empty()) add("--accelerator-label", values.accelerator_label);
  // With .svc, which NO_PROXY in a cluster's pods usually covers.
  add("--supervisor-url",
      fmt::format("http://adaptdl-supervisor.{}.svc:{}", name_space, values.supervisor.port));
  add("--supervisor-port", std::to_string(values.supervisor.target_port));
  add("--supervisor-https-url", fmt::format("https://adaptdl-supervisor.{}.svc:{}", name_space,
                                            values.supervisor.https_port));
  add("--supervisor-https-port", std::to_string(kSecureSupervisorPort));
  add("--metrics-port", std::to_string(values.metrics.target_port));
  add("--webhook-port", std::to_string(kWebhookPort));
  add("--certificate-lifetime", values.certificate_life);
  if (!values.client_authorities.empty()) {
    add("--webhook-client-ca", fmt::format("{}/{}", kConfigFolder, kClientAuthoritiesKey));
  }
  for (const std::string& name : values.job_namespaces) add("--job-namespace", name);
  if (const AutoscalingValues& autoscaling = values.autoscaling; autoscaling.max_nodes > 0) {
    Json placeholder = {{"priorityClassName", kPlaceholderPriority},
                        {"tolerations", values.tolerations}};
    if (autoscaling.pod.is_object()) placeholder.merge_patch(autoscaling.pod);
    add("--min-nodes", std::to_string(autoscaling.min_nodes));
    add("--max-nodes", std::to_string(autoscaling.max_nodes));
    add("--placeholder-image", autoscaling.image);
    add("--placeholder-spec", dump_json(placeholder));
    add("--expander-interval", autoscaling.interval);
    add("--scale-down-delay", autoscaling.scale_down_delay);
  }
  if (!values.default_resources.empty()) {
    add("--default-resources", dump_json(values.default_resources));
  }
  if (values.load_pickles) arguments.push_back("--load-pickles");
  if (!values.network_policies) arguments.push_back("--no-network-policies");
  if (!values.patch_pods.is_null()) add("--patch-pods", dump_json(values.patch_pods));
  if (!values.patch_containers.is_null()) {
    add("--patch-containers", dump_json(values.patch_containers));
  }
  return arguments;
}

// The operators read the file only once, so that another one must replace their pods.
Json pod_annotations(const Values& values) {
  if (values.client_authorities.empty()) return {};
  return {{"adaptdl/webhook-client-ca", to_hex(sha256(bytes_of(values.client_authorities)))}};
}

// Only jobs of these namespaces are validated.
Json webhook_selector(const std::vector<std::string>& namespaces) {
  if (namespaces.empty()) return {};
  const Json in = {
      {"key", "kubernetes.io/metadata.name"}, {"operator", "In"}, {"values", namespaces}};
  return {{"matchExpressions", Json::array({in})}};
}

// The operator's rights in the namespaces of jobs: in all, or in these and its own, where
// placeholders are.
std::vector<Json> job_bindings(const Json& everywhere, const Values& values,
                               const std::string& name_space) {
  if (values.job_namespaces.empty()) return {everywhere};
  std::set<std::string> namespaces(values.job_namespaces.begin(), values.job_namespaces.end());
  namespaces.insert(name_space);
  std::vector<Json> result;
  for (const std::string& name : namespaces) {
    Json binding = everywhere;
    binding["kind"] = "RoleBinding";
    binding["metadata"]["namespace"] = name;
    result.push_back(std::move(binding));
  }
  return result;
}

Json registry_volume(const RegistryValues& registry) {
  Json volume = {{"name", "data"}};
  if (registry.persistent) {
    volume["persistentVolumeClaim"]["claimName"] = registry.name;
  } else {
    volume["emptyDir"] = Json::object();
  }
  return volume;
}

Blanks blanks_of(const Values& values, const std::string& name_space, const Json& given) {
  Json secrets;
  for (const std::string& name : values.pull_secrets) secrets.push_back({{"name", name}});
  const RegistryValues& registry = values.registry;
  const MonitorValues& monitor = values.monitor;
  return {{"namespace", name_space},
          {"image", values.image()},
          {"pull_policy", text_or_null(values.pull_policy)},
          {"pull_secrets", secrets},
          {"replicas", values.replicas},
          {"resources", values.resources},
          {"tolerations", values.tolerations},
          {"node_selector", values.node_selector},
          {"pod_annotations", pod_annotations(values)},
          {"arguments", operator_arguments(values, name_space)},
          {"supervisor_port", values.supervisor.target_port},
          {"metrics_port", values.metrics.target_port},
          {"webhook_port", kWebhookPort},
          {"secure_supervisor_port", kSecureSupervisorPort},
          {"config_folder", kConfigFolder},
          {"client_authorities", text_or_null(values.client_authorities)},
          {"webhook_selector", webhook_selector(values.job_namespaces)},
          {"metrics_from", values.metrics_from},
          {"supervisor_service", service_spec(values.supervisor, "supervisor")},
          {"metrics_service", service_spec(values.metrics, "metrics")},
          {"failure_policy", values.failure_policy},
          {"given", dump_json(given)},
          {"dashboard", std::string(manifest_file("dashboard.json"))},
          {"alerts", yaml_to_json(parse_yaml(manifest_file("alerts.yaml"), "alerts.yaml"))},
          {"registry_name", registry.name},
          {"registry_image", registry.image},
          {"registry_type", registry.service.type},
          {"registry_port", registry.service.port},
          {"registry_node_port", registry.service.type == "NodePort" && registry.service.node_port
                                     ? Json(*registry.service.node_port)
                                     : Json()},
          {"registry_volume", registry_volume(registry)},
          {"registry_size", registry.size},
          {"registry_storage_class",
           registry.storage_class == "-" ? Json("") : text_or_null(registry.storage_class)},
          {"monitor_namespace", monitor.name_space.empty() ? name_space : monitor.name_space},
          {"monitor_selector", monitor.selector},
          {"monitor_interval", text_or_null(monitor.interval)},
          {"monitor_honor", monitor.honor_labels}};
}

void add_labels(Json& object, const std::string& name_space, const std::string& version) {
  Json& labels = object["metadata"]["labels"];
  if (!is_data(object)) labels[kLabelInstalled] = name_space;
  labels["app.kubernetes.io/part-of"] = "adaptdl";
  labels["app.kubernetes.io/managed-by"] = "adaptdl";
  labels["app.kubernetes.io/version"] = version;
}

const KnownKind& known_kind(const Json& object) {
  const auto kind = json_get<std::string>(object, "kind", "object");
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const KnownKind& known) { return kind == known.kind; });
  if (found == kKinds.end()) fail("{}: not a kind of an installation", kind);
  return *found;
}

}  // namespace

std::vector<Json> manifests(const Values& values, const std::string& name_space, const Json& given,
                            const std::string& version) {
  ADAPTDL_CHECK(!values.image().empty());
  std::vector<const char*> files = {"namespace.yaml", "crd.yaml", "access.yaml", "config.yaml",
                                    "operator.yaml"};
  if (values.autoscaling.max_nodes > 0) {
    files.insert(files.end() - 1, "placeholder_priority.yaml");
  }
  if (values.registry.enabled && values.registry.persistent) {
    files.push_back("registry_claim.yaml");
  }
  if (values.registry.enabled) files.push_back("registry.yaml");
  if (values.monitor.enabled) files.push_back("service_monitor.yaml");
  if (values.rules) files.push_back("prometheus_rule.yaml");
  if (values.dashboard) files.push_back("dashboard.yaml");
  if (values.admission_policy) files.push_back("admission_policy.yaml");
  files.push_back("webhook.yaml");
  const Blanks blanks = blanks_of(values, name_space, given);
  std::vector<Json> result;
  for (const char* file : files) {
    Json content = yaml_to_json(parse_yaml(manifest_file(file), file));
    if (!content.is_array()) content = Json::array({content});
    for (Json& filled_in : content) {
      fill(filled_in, blanks);
      const bool is_of_jobs = describe_object(filled_in) == kJobsBinding;
      for (Json& object : is_of_jobs ? job_bindings(filled_in, values, name_space)
                                     : std::vector<Json>{filled_in}) {
        add_labels(object, name_space, version);
        result.push_back(std::move(object));
      }
    }
  }
  return result;
}

kube::Resource resource_of(const Json& object) {
  const KnownKind& known = known_kind(object);
  const Json& metadata = object.at("metadata");
  return {known.group,
          known.version,
          known.plural,
          json_get_or<std::string>(metadata, "namespace", "metadata", ""),
          json_get<std::string>(metadata, "name", "metadata"),
          ""};
}

std::vector<InstalledKind> installed_kinds() {
  std::vector<InstalledKind> result;
  for (const KnownKind& known : kKinds) {
    result.push_back({known.kind, {known.group, known.version, known.plural, "", "", ""}});
  }
  return result;
}

bool is_data(const Json& object) {
  return object.value("kind", "") == "PersistentVolumeClaim";
}

std::string describe_object(const Json& object) {
  const kube::Resource resource = resource_of(object);
  return fmt::format("{} {}", object.value("kind", ""), resource.name);
}

}  // namespace adaptdl::kubernetes
