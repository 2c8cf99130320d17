#pragma once

// The values of an installation: those of AdaptDL's Helm chart, with its names, and our additions.
// Pure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/formats/yaml.h"
#include "core/policy/policy.h"

namespace adaptdl::kubernetes {

struct ServiceValues {
  std::string type = "ClusterIP";
  int port = 0;         // of the service
  int target_port = 0;  // of the pods
  std::optional<int> node_port;
  int https_port = 0;  // of the supervisor's service: the same over HTTPS
};

struct MonitorValues {  // metrics.serviceMonitor
  bool enabled = false;
  std::string name_space;  // "": that of the installation
  std::string interval;    // "": Prometheus's own
  Json selector = {{"release", "prometheus"}};
  bool honor_labels = true;
};

struct RegistryValues {  // docker-registry
  bool enabled = false;
  std::string name = "adaptdl-registry";
  std::string image =
      "registry:2.8.3@sha256:"
      "a3d8aaa63ed8681a604f1dea0aa03f100d5895b6a58ace528858a7b332415373";
  ServiceValues service{"NodePort", 5000, 5000, 32000};
  bool persistent = false;    // persistence.enabled: keep the images in a volume
  std::string size = "10Gi";  // of that volume
  std::string storage_class;  // "": the cluster's default; "-": none, for an existing volume
};

struct AutoscalingValues {  // autoscaling: placeholders, for a cluster autoscaler (node_expander.h)
  int min_nodes = 0, max_nodes = 0;  // max_nodes 0: no placeholders
  std::string image;                 // of placeholders; it only sleeps
  std::string interval = "30s", scale_down_delay = "10m";
  Json pod;  // merge patch of their spec, after the installation's tolerations; null: none
};

struct Values {
  std::string repository, tag, digest;  // image.*; the digest wins
  std::string pull_policy;              // image.pullPolicy; "": Kubernetes' own choice
  std::vector<std::string> pull_secrets;
  int replicas = 2;  // sched.replicas
  Json resources = {{"requests", {{"cpu", "100m"}, {"memory", "128Mi"}}},
                    {"limits", {{"memory", "512Mi"}}}};  // sched.resources
  Json node_selector = {{"kubernetes.io/os", "linux"}};  // sched.nodeSelector
  std::string policy = std::string(default_policy());    // sched.policy
  std::map<std::string, double> policy_options;          // sched.policyOptions
  std::string interval = "60s";                          // sched.interval
  std::string accelerator_label;                         // sched.acceleratorLabel; "": none
  Json tolerations = Json::array({{{"key", "petuum.com/nodegroup"},
                                   {"operator", "Equal"},
                                   {"value", "adaptdl"},
                                   {"effect", "NoSchedule"}}});
  Json default_resources = {{"requests", {{"cpu", "1.0"}, {"memory", "1Gi"}}}};  // job.*
  bool load_pickles = false;                                                     // job.loadPickles
  bool network_policies = true;             // job.networkPolicies
  std::vector<std::string> job_namespaces;  // job.namespaces: only there are jobs run; empty: all
  Json patch_pods, patch_containers;        // JSON patches; null: none
  ServiceValues supervisor{"ClusterIP", 8080, 8080, {}, 8443};
  ServiceValues metrics{"ClusterIP", 9091, 9091, {}};
  Json metrics_from;  // metrics.from: NetworkPolicyPeers that may read them; null: all
  MonitorValues monitor;
  bool rules = false;      // metrics.prometheusRule.enabled
  bool dashboard = false;  // dashboard.create
  RegistryValues registry;
  AutoscalingValues autoscaling;
  bool admission_policy = true;            // admissionPolicy.enabled
  std::string failure_policy = "Ignore";   // webhook.failurePolicy
  std::string client_authorities;          // webhook.clientCA, PEM; "": any client may ask
  std::string certificate_life = "2160h";  // webhook.certificateLifetime

  // "REPOSITORY@DIGEST" or "REPOSITORY:TAG"; "" without a repository.
  std::string image() const;
};

// Reads the values. The image may be missing; everything else is checked, and unknown names are
// refused. Throws Error "FILE:LINE: FIELD: ...".
Values read_values(const YamlNode& root);

// Reads stored values, made by values_json().
Values read_values(const Json& kept);

// The values as given, for storing. Values that read_values() reads as text stay as written: a tag
// 1.10 does not become the number 1.1.
Json values_json(const YamlNode& root);

// Merges `over` into `base`: mappings key by key, other values replace the old one. Null stays,
// since it may remove a default.
Json merged_values(Json base, const Json& over);

}  // namespace adaptdl::kubernetes
