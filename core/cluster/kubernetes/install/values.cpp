#include "core/cluster/kubernetes/install/values.h"

#include <algorithm>
#include <array>

#include "core/base/number.h"
#include "core/formats/yaml_json.h"
#include "core/job/job_spec.h"
#include "core/job/quantity.h"

namespace adaptdl::kubernetes {

namespace {

constexpr int kMaxPort = 65535;
constexpr int kMostOperators = 100;
constexpr int kMostNodes = 100000;
// Texts that may look like numbers.
constexpr std::array kTexts = {"image.repository",
                               "image.tag",
                               "image.digest",
                               "image.pullPolicy",
                               "image.pullSecrets.name",
                               "image.secrets.name",
                               "sched.policy",
                               "sched.interval",
                               "sched.acceleratorLabel",
                               "sched.nodeSelector",
                               "metrics.serviceMonitor.namespace",
                               "metrics.serviceMonitor.interval",
                               "docker-registry.fullnameOverride",
                               "docker-registry.image",
                               "docker-registry.persistence.size",
                               "docker-registry.persistence.storageClass",
                               "autoscaling.image",
                               "autoscaling.interval",
                               "autoscaling.scaleDownDelay",
                               "job.namespaces",
                               "webhook.certificateLifetime",
                               "webhook.clientCA"};
constexpr double kLongestInterval = 86400;         // s
constexpr double kLongestLife = 10 * 365 * 86400;  // s

// A missing value counts as not given, as does null, which the chart has as defaults.
bool given(const YamlNode& node) {
  return node.present() && (node.is_scalar() || node.is_list() || node.is_mapping());
}

void read_text(YamlMapping& mapping, std::string_view key, std::string& value) {
  const YamlNode found = mapping.find(key);
  if (given(found)) value = found.text();
}

void read_duration(YamlMapping& mapping, std::string_view key, std::string& value, double most) {
  const YamlNode found = mapping.find(key);
  if (!given(found)) return;
  value = found.text();
  try {
    parse_duration(value, "it", 1, most);
  } catch (const Error& error) {
    found.refuse(error.what());
  }
}

void read_json(YamlMapping& mapping, std::string_view key, Json& value) {
  const YamlNode found = mapping.find(key);
  if (given(found)) value = yaml_to_json(found);
}

// Merged into the default, as Helm does: null removes a default.
void read_object(YamlMapping& mapping, std::string_view key, Json& value) {
  const YamlNode found = mapping.find(key);
  if (!given(found)) return;
  if (!found.is_mapping()) found.refuse("must be a mapping");
  const Json over = yaml_to_json(found);
  if (value.is_object()) {
    value.merge_patch(over);
  } else {
    value = over;
  }
}

int64_t amount(const Json& quantity, const std::string& where) {
  return parse_quantity_milli(
      quantity.is_string() ? quantity.get<std::string>() : dump_json(quantity), where);
}

// As read_object(). The cluster accepts no request above its limit, so a default that conflicts
// with a given value is dropped.
void read_resources(YamlMapping& mapping, std::string_view key, Json& value) {
  read_object(mapping, key, value);
  const YamlNode found = mapping.find(key);
  const Json given_ones = yaml_to_json(found), laid = value;
  const auto is_given = [&](const char* part, const std::string& name) {
    return given_ones.is_object() && given_ones.contains(part) && given_ones[part].contains(name);
  };
  const auto drop = [&](const char* part, const std::string& name) {
    value[part].erase(name);
    if (value[part].empty()) value.erase(part);
  };
  const Json requests = laid.value("requests", Json()), limits = laid.value("limits", Json());
  if (!requests.is_object() || !limits.is_object()) return;
  for (const auto& [name, limit] : limits.items()) {
    if (!requests.contains(name)) continue;
    const std::string where = fmt::format("{}.{}", found.place(), name);
    if (amount(requests[name], where) <= amount(limit, where)) continue;
    if (!is_given("limits", name)) {
      drop("limits", name);
    } else if (!is_given("requests", name)) {
      drop("requests", name);  // the limit is the request then
    } else {
      found.refuse(fmt::format("requests.{0} is above limits.{0}", name));
    }
  }
}

// A list of operations, or the same as JSON text, as the chart has it.
void read_patch(YamlMapping& mapping, std::string_view key, Json& patch) {
  const YamlNode found = mapping.find(key);
  if (!given(found)) return;
  if (found.is_list()) {
    patch = yaml_to_json(found);
    return;
  }
  try {
    patch = parse_json(found.text(), "it");
  } catch (const Error& error) {
    found.refuse(error.what());
  }
  if (!patch.is_array()) found.refuse("must be a JSON patch: a list of operations (RFC 6902)");
}

// Only the supervisor's service has `https_port`.
void read_service(const YamlNode& node, ServiceValues& service) {
  YamlMapping mapping(node, true);
  mapping.read_choice("type", service.type,
                      {{"ClusterIP", std::string("ClusterIP")},
                       {"NodePort", std::string("NodePort")},
                       {"LoadBalancer", std::string("LoadBalancer")}});
  mapping.read("port", service.port, 1, kMaxPort);
  mapping.read("targetPort", service.target_port, 1, kMaxPort);
  int port = 0;
  if (mapping.read("nodePort", port, 1, kMaxPort)) service.node_port = port;
  if (service.https_port != 0) {
    mapping.read("httpsPort", service.https_port, 1, kMaxPort);
    if (service.https_port == service.port) node.refuse("port and httpsPort are the same");
  }
  mapping.finish();
}

void read_image(const YamlNode& node, Values& values) {
  YamlMapping image(node, true);
  read_text(image, "repository", values.repository);
  read_text(image, "tag", values.tag);
  read_text(image, "digest", values.digest);
  read_text(image, "pullPolicy", values.pull_policy);
  const auto add_secret = [&](const YamlNode& item) {
    YamlMapping secret(item, true);
    std::string name;
    read_text(secret, "name", name);
    if (!name.empty()) values.pull_secrets.push_back(name);
    secret.finish();
  };
  const YamlNode list = image.find("pullSecrets");
  if (given(list)) {
    for (const YamlNode& item : list.list()) add_secret(item);
  }
  add_secret(image.find("secrets"));  // AdaptDL's newer chart
  image.finish();
}

// Labels of nodes, merged into the default; null removes one of these. All values are texts: true
// and 8, too.
void read_selector(const YamlNode& node, Json& selector) {
  YamlMapping mapping(node, true);
  for (const std::string& key : mapping.keys()) {
    const YamlNode value = mapping.find(key);
    if (given(value)) {
      selector[key] = value.text();
    } else {
      selector.erase(key);
    }
  }
}

void read_sched(const YamlNode& node, Values& values) {
  YamlMapping sched(node, true);
  sched.read("replicas", values.replicas, 1, kMostOperators);
  read_resources(sched, "resources", values.resources);
  read_selector(sched.find("nodeSelector"), values.node_selector);
  read_text(sched, "policy", values.policy);
  YamlMapping options(sched.find("policyOptions"), true);
  for (const std::string& key : options.keys()) {
    values.policy_options[key] = options.require(key).number();
  }
  read_duration(sched, "interval", values.interval, kLongestInterval);
  read_text(sched, "acceleratorLabel", values.accelerator_label);
  sched.finish();
}

void read_job_values(const YamlNode& node, Values& values) {
  YamlMapping job(node, true);
  read_resources(job, "defaultResources", values.default_resources);
  job.read("loadPickles", values.load_pickles);
  job.read("networkPolicies", values.network_policies);
  const YamlNode namespaces = job.find("namespaces");
  if (given(namespaces)) {
    for (const YamlNode& item : namespaces.list()) {
      if (!valid_job_name(item.text())) item.refuse("must be the name of a namespace");
      values.job_namespaces.push_back(item.text());
    }
  }
  YamlMapping patch(job.find("patch"), true);
  read_patch(patch, "pods", values.patch_pods);
  read_patch(patch, "containers", values.patch_containers);
  patch.finish();
  YamlMapping newer(job.find("jobPatch"), true);
  read_patch(newer, "podPatch", values.patch_pods);
  read_patch(newer, "containerPatch", values.patch_containers);
  newer.finish();
  job.finish();
}

void read_monitor(const YamlNode& node, MonitorValues& monitor) {
  YamlMapping mapping(node, true);
  mapping.read("enabled", monitor.enabled);
  read_text(mapping, "namespace", monitor.name_space);
  read_text(mapping, "interval", monitor.interval);
  read_object(mapping, "selector", monitor.selector);
  mapping.read("honorLabels", monitor.honor_labels);
  mapping.finish();
}

void read_registry(const YamlNode& node, RegistryValues& registry) {
  YamlMapping mapping(node, true);
  mapping.read("enabled", registry.enabled);
  read_text(mapping, "fullnameOverride", registry.name);
  read_text(mapping, "image", registry.image);
  read_service(mapping.find("service"), registry.service);
  YamlMapping persistence(mapping.find("persistence"), true);
  persistence.read("enabled", registry.persistent);
  read_text(persistence, "size", registry.size);
  const YamlNode size = persistence.find("size");
  if (parse_quantity(registry.size, size.place()) == 0) size.refuse("must be greater than 0");
  read_text(persistence, "storageClass", registry.storage_class);
  persistence.finish();
  mapping.finish();
}

void read_autoscaling(const YamlNode& node, AutoscalingValues& autoscaling) {
  YamlMapping mapping(node, true);
  mapping.read("minNodes", autoscaling.min_nodes, 0, kMostNodes);
  mapping.read("maxNodes", autoscaling.max_nodes, 0, kMostNodes);
  read_text(mapping, "image", autoscaling.image);
  read_duration(mapping, "interval", autoscaling.interval, kLongestInterval);
  read_duration(mapping, "scaleDownDelay", autoscaling.scale_down_delay, kLongestInterval);
  read_object(mapping, "podSpec", autoscaling.pod);
  mapping.finish();
  if (autoscaling.max_nodes == 0) return;
  if (autoscaling.min_nodes > autoscaling.max_nodes) node.refuse("minNodes is above maxNodes");
  if (autoscaling.image.empty()) {
    node.refuse("maxNodes requires an image for the placeholders that only sleeps, such as pause");
  }
}

void keep_text(const YamlNode& node, Json& json, std::string_view path) {
  if (node.is_list() && json.is_array()) {
    size_t i = 0;
    for (const YamlNode& item : node.list()) keep_text(item, json[i++], path);
    return;
  }
  if (path.empty()) {
    if (node.is_scalar() && !json.is_null()) json = node.text();
    if (!node.is_mapping()) return;
    YamlMapping mapping(node);
    for (const std::string& key : mapping.keys()) keep_text(mapping.find(key), json[key], path);
    return;
  }
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string key(path.substr(0, dot));
  if (!node.is_mapping() || !json.contains(key)) return;
  keep_text(YamlMapping(node).find(key), json[key], path.substr(std::min(dot + 1, path.size())));
}

}  // namespace

std::string Values::image() const {
  if (repository.empty()) return "";
  if (!digest.empty()) return repository + "@" + digest;
  return tag.empty() ? repository : repository + ":" + tag;
}

Values read_values(const YamlNode& root) {
  Values values;
  YamlMapping top(root, true);
  read_image(top.find("image"), values);
  read_sched(top.find("sched"), values);
  read_json(top, "tolerations", values.tolerations);
  if (!values.tolerations.is_array()) top.find("tolerations").refuse("must be a list");
  read_job_values(top.find("job"), values);
  YamlMapping metrics(top.find("metrics"), true);
  read_service(metrics.find("service"), values.metrics);
  read_monitor(metrics.find("serviceMonitor"), values.monitor);
  read_json(metrics, "from", values.metrics_from);
  if (!values.metrics_from.is_null() && !values.metrics_from.is_array()) {
    metrics.find("from").refuse("must be a list of NetworkPolicyPeers");
  }
  YamlMapping rule(metrics.find("prometheusRule"), true);
  rule.read("enabled", values.rules);
  rule.finish();
  metrics.finish();
  YamlMapping dashboard(top.find("dashboard"), true);
  dashboard.read("create", values.dashboard);
  dashboard.finish();
  YamlMapping supervisor(top.find("supervisor"), true);
  read_service(supervisor.find("service"), values.supervisor);
  supervisor.finish();
  read_registry(top.find("docker-registry"), values.registry);
  read_autoscaling(top.find("autoscaling"), values.autoscaling);
  YamlMapping webhook(top.find("webhook"), true);
  webhook.read_choice("failurePolicy", values.failure_policy,
                      {{"Ignore", std::string("Ignore")}, {"Fail", std::string("Fail")}});
  read_duration(webhook, "certificateLifetime", values.certificate_life, kLongestLife);
  read_text(webhook, "clientCA", values.client_authorities);
  webhook.finish();
  YamlMapping policy(top.find("admissionPolicy"), true);
  policy.read("enabled", values.admission_policy);
  policy.finish();
  top.finish();
  return values;
}

Values read_values(const Json& kept) {
  return read_values(parse_yaml(dump_json(kept), "the installation's values"));
}

Json values_json(const YamlNode& root) {
  Json json = yaml_to_json(root);
  for (const char* path : kTexts) keep_text(root, json, path);
  return json;
}

Json merged_values(Json base, const Json& over) {
  if (!base.is_object()) base = Json::object();
  if (!over.is_object()) return base;
  for (const auto& [key, value] : over.items()) {
    Json& place = base[key];
    place = value.is_object() ? merged_values(std::move(place), value) : value;
  }
  return base;
}

}  // namespace adaptdl::kubernetes
