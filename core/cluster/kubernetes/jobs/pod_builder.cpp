#include "core/cluster/kubernetes/jobs/pod_builder.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "core/base/crypto.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json_fields.h"
#include "core/job/worker_environment.h"

namespace adaptdl::kubernetes {

namespace {

constexpr size_t kMaxHostname = 63;
constexpr size_t kSecretDigits = 10;  // hexadecimal digits of the digest
constexpr const char *kTokenKey = "token", *kLinksKey = "links";  // of the Secret

std::string secret_name(const JobObject& job, const JobKeys& keys) {
  const std::string digest = to_hex(sha256(bytes_of(keys.token + keys.links)));
  return fmt::format("adaptdl-token-{}-{}", job.name, digest.substr(0, kSecretDigits));
}
constexpr const char* kShm = "adaptdl-shm";
constexpr const char* kNodeGroup = "petuum.com/nodegroup";

Json& made_object(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_object()) value = Json::object();
  return value;
}

Json& made_list(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_array()) value = Json::array();
  return value;
}

void set_variable(Json& environment, const std::string& name, Json entry) {
  for (auto it = environment.begin(); it != environment.end();) {
    it = it->is_object() && it->value("name", Json()) == name ? environment.erase(it) : it + 1;
  }
  entry["name"] = name;
  environment.push_back(std::move(entry));
}

// Device plugins have different names for GPUs, slices and shares: nvidia.com/mig-1g.5gb,
// example.com/vgpu. A claim may be for any device.
bool wants_gpu(const Json& container) {
  const Json resources = container.value("resources", Json());
  if (!resources.is_object()) return false;
  if (resources.contains("claims") && !resources["claims"].empty()) return true;
  for (const char* kind : {"limits", "requests"}) {
    const Json amounts = resources.value(kind, Json());
    for (const auto& [name, amount] : amounts.items()) {
      const bool gpu = name.starts_with("nvidia.com/") || name.find("gpu") != std::string::npos;
      if (gpu && amount != 0 && amount != "0") return true;
    }
  }
  return false;
}

// Of the objects that all pods of a job share.
std::string shared_name(const JobObject& job) {
  return "adaptdl-" + job.uid;
}

// Of an object that belongs to a job.
Json metadata_of(const JobObject& job, const std::string& name) {
  return {{"name", name},
          {"namespace", job.job_namespace},
          {"labels", {{kLabelAdaptdl, "true"}, {kLabelJob, job.name}}},
          {"ownerReferences", owner_reference(job)}};
}

// A job's name alone may be as long as a host name, so it is shortened.
std::string host_name_of(const JobObject& job, int64_t group, int rank) {
  const std::string tail = fmt::format("-{}-{}", group, rank);
  std::string host = job.name.substr(0, kMaxHostname - tail.size());
  std::replace(host.begin(), host.end(), '.', '-');
  return host + tail;
}

std::string torch_port(int64_t group) {
  return std::to_string(kMasterPort + kTorchPortOffset + group % kMasterPorts);
}

// torchrun's contract, for programs that know nothing of AdaptDL: each pod is a node with one
// process. What the template sets stays, as it may run a launcher of its own.
void add_torch_variables(Json& environment, const JobObject& job, const JobStatus& status, int rank,
                         const std::string& subdomain) {
  const auto set = [&](const char* name, const std::string& value) {
    if (!has_named(environment, name)) set_variable(environment, name, {{"value", value}});
  };
  const int64_t group = status.group.value_or(0);
  const std::string self = std::to_string(rank), all = std::to_string(status.allocation.size());
  set("RANK", self);
  set("WORLD_SIZE", all);
  set("LOCAL_RANK", "0");
  set("LOCAL_WORLD_SIZE", "1");
  set("GROUP_RANK", self);
  set("GROUP_WORLD_SIZE", all);
  set("ROLE_RANK", self);
  set("ROLE_WORLD_SIZE", all);
  set("ROLE_NAME", "default");
  set("MASTER_ADDR",
      subdomain.empty() ? "127.0.0.1" : host_name_of(job, group, 0) + "." + subdomain);
  set("MASTER_PORT", torch_port(group));
  set("TORCHELASTIC_RESTART_COUNT", std::to_string(status.failures));
  set("TORCHELASTIC_MAX_RESTARTS", std::to_string(job.backoff_limit));
  set("TORCHELASTIC_RUN_ID", job.name);
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // rank 0 itself listens at MASTER_PORT
  // What a program writes there is the message of its end in the pod's status.
  set("TORCHELASTIC_ERROR_FILE", "/dev/termination-log");
  set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
}

void add_environment(Json& container, const JobObject& job, const JobStatus& status, int rank,
                     const PodNode& node, const PodSettings& settings) {
  Json& environment = made_list(container, "env");
  const auto set = [&](const char* name, const std::string& value) {
    set_variable(environment, name, {{"value", value}});
  };
  const std::vector<std::string>& nodes = status.allocation;
  const int64_t group = status.group.value_or(0);
  set("ADAPTDL_JOB_ID", job.id());
  set("ADAPTDL_MASTER_PORT", std::to_string(kMasterPort + group % kMasterPorts));
  set("ADAPTDL_NUM_NODES",
      std::to_string(std::set<std::string>(nodes.begin(), nodes.end()).size()));
  set("ADAPTDL_NUM_RESTARTS", std::to_string(group));
  set("ADAPTDL_NUM_REPLICAS", std::to_string(nodes.size()));
  set("ADAPTDL_REPLICA_RANK", std::to_string(rank));
  set("ADAPTDL_SCHED_VERSION", settings.scheduler_version);
  if (job.live) set("ADAPTDL_RESCALE", "live");
  // The same name as the scheduler has for the kind of its GPUs.
  if (!node.accelerator.empty()) set(kAcceleratorVariable, node.accelerator);
  // The kubelet expands the token, so no pod's spec contains it, and old images need no change.
  const std::string secret = secret_name(job, settings.keys ? settings.keys(job) : JobKeys{});
  const auto set_secret = [&](const char* name, const char* key) {
    set_variable(environment, name,
                 {{"valueFrom", {{"secretKeyRef", {{"name", secret}, {"key", key}}}}}});
  };
  set_secret("ADAPTDL_JOB_TOKEN", kTokenKey);
  set_secret(kLinkKeyVariable, kLinksKey);
  const std::string prefix = "/j/$(ADAPTDL_JOB_TOKEN)";
  set("ADAPTDL_SUPERVISOR_URL", settings.supervisor_url + prefix);
  if (!settings.secure_supervisor_url.empty()) {
    set(kSecureSupervisorVariable, settings.secure_supervisor_url + prefix);
    set(kSupervisorAuthoritiesVariable, settings.supervisor_authorities());
  }
  const bool load_pickles = status.load_pickles || settings.load_pickles;
  if (load_pickles && !has_named(environment, kLoadPicklesVariable)) {
    set(kLoadPicklesVariable, "1");
  }
}

// The host of a URL, without scheme, port and brackets.
std::string host_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  const std::string place = url.substr(begin, url.find('/', begin) - begin);
  if (place.starts_with('[')) return place.substr(1, place.find(']') - 1);
  return place.substr(0, place.find(':'));
}

// Programs with a proxy setting would send requests to the supervisor through the proxy, which does
// not know the cluster's hosts.
void add_no_proxy(Json& environment, const std::string& host) {
  const auto any_named = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return has_named(environment, name); });
  };
  if (host.empty() || !any_named({"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                  "all_proxy", "ALL_PROXY"})) {
    return;
  }
  const std::initializer_list<const char*> both = {"no_proxy", "NO_PROXY"};
  if (!any_named(both)) {
    for (const char* name : both) set_variable(environment, name, {{"value", host}});
    return;
  }
  for (Json& entry : environment) {
    const Json name = entry.is_object() ? entry.value("name", Json()) : Json();
    if (std::find(both.begin(), both.end(), name) == both.end()) continue;
    if (entry.contains("valueFrom")) continue;  // the value is unknown here
    const Json said = entry.value("value", Json());
    const std::string hosts = said.is_string() ? said.get<std::string>() : "";
    if (hosts == "*") continue;  // means all hosts, but only if it stands alone
    entry["value"] = hosts.empty() ? host : hosts + "," + host;
  }
}

void add_shared_memory(Json& spec) {
  Json& volumes = made_list(spec, "volumes");
  if (!has_named(volumes, kShm)) {
    volumes.push_back({{"name", kShm}, {"emptyDir", {{"medium", "Memory"}}}});
  }
  for (Json& container : spec["containers"]) {
    Json& mounts = made_list(container, "volumeMounts");
    const bool taken = std::any_of(mounts.begin(), mounts.end(), [](const Json& mount) {
      return mount.is_object() && mount.value("mountPath", Json()) == "/dev/shm";
    });
    if (!taken) mounts.push_back({{"name", kShm}, {"mountPath", "/dev/shm"}});
  }
}

// The port of a pod in its node's network. Other jobs' pods listen there, too, and a replica that
// connects to another job's port would wait for ever.
int host_port(const JobObject& job, int64_t group) {
  const Sha256Digest digest = sha256(bytes_of(job.uid));
  const int64_t number = group + (digest[0] << 8 | digest[1]);
  return kMasterPort + static_cast<int>(number % kMasterPorts);
}

// Adds what depends on the template, defaults and patches together.
void complete(Json& spec, const JobObject& job, int64_t group, const PodSettings& settings) {
  const bool on_host = spec.value("hostNetwork", Json()) == true;
  if (on_host && spec.value("dnsPolicy", Json("ClusterFirst")) == "ClusterFirst") {
    spec["dnsPolicy"] = "ClusterFirstWithHostNet";  // otherwise it cannot resolve the supervisor
  }
  for (Json& container : made_list(spec, "containers")) {
    if (!container.is_object()) continue;  // after a patch; the API server reports it
    Json& environment = made_list(container, "env");
    if (on_host) {
      const int port = host_port(job, group);
      set_variable(environment, "ADAPTDL_MASTER_PORT", {{"value", std::to_string(port)}});
      for (Json& entry : environment) {  // the template's own stays
        if (entry != Json{{"name", "MASTER_PORT"}, {"value", torch_port(group)}}) continue;
        entry["value"] = std::to_string(port + kTorchPortOffset);
      }
    }
    add_no_proxy(environment, host_of(settings.supervisor_url));
    // Without a limit the runtime would expose all GPUs of the node. The value here overrides that
    // of a device plugin.
    if (!wants_gpu(container) && !has_named(environment, "NVIDIA_VISIBLE_DEVICES")) {
      set_variable(environment, "NVIDIA_VISIBLE_DEVICES", {{"value", "none"}});
    }
  }
}

void apply_patch(Json& target, const Json& patch, const char* what) {
  if (patch.is_null() || patch.empty()) return;
  try {
    target = target.patch(patch);
  } catch (const nlohmann::json::exception& error) {
    fail("cannot apply {} of the installation: {}", what, error.what());
  }
  if (!target.is_object())
    fail("cannot apply {} of the installation: the result is not an object", what);
}

}  // namespace

std::string pod_name(const JobObject& job, int64_t group, int rank) {
  return fmt::format("{}-{}-{}-{}", job.name, job.uid, group, rank);
}

void add_toleration(Json& spec) {
  const Json ours = {
      {"key", kNodeGroup}, {"operator", "Equal"}, {"value", "adaptdl"}, {"effect", "NoSchedule"}};
  Json& tolerations = made_list(spec, "tolerations");
  if (std::find(tolerations.begin(), tolerations.end(), ours) == tolerations.end()) {
    tolerations.push_back(ours);
  }
}

Json owner_reference(const JobObject& job, bool controller) {
  return Json::array({{{"apiVersion", fmt::format("{}/{}", kJobGroup, kJobVersion)},
                       {"kind", kJobKind},
                       {"name", job.name},
                       {"uid", job.uid},
                       {"controller", controller},
                       {"blockOwnerDeletion", controller}}});
}

Json make_secret(const JobObject& job, const JobKeys& keys) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"type", "Opaque"},
          {"metadata", metadata_of(job, secret_name(job, keys))},
          {"stringData", {{kTokenKey, keys.token}, {kLinksKey, keys.links}}}};
}

bool needs_service(const JobObject& job, const JobStatus& status) {
  return !job.live && status.allocation.size() > 1;
}

Json network_policy_of(const JobObject& job) {
  const Json pods = {{"matchLabels", {{kLabelJob, job.name}}}};
  return {{"apiVersion", "networking.k8s.io/v1"},
          {"kind", "NetworkPolicy"},
          {"metadata", metadata_of(job, shared_name(job))},
          {"spec",
           {{"podSelector", pods},
            {"policyTypes", {"Ingress"}},
            {"ingress", Json::array({{{"from", Json::array({{{"podSelector", pods}}})}}})}}}};
}

Json service_of(const JobObject& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata_of(job, shared_name(job))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{kLabelJob, job.name}}}}}};
}

Json make_pod(const JobObject& job, const JobStatus& status, const PodPlace& place,
              const PodNode& node, const PodSettings& settings) {
  Json pod = *job.pod_template;
  if (!pod.is_object()) pod = Json::object();
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  const int64_t group = status.group.value_or(0);
  const int rank = place.rank;

  Json& metadata = made_object(pod, "metadata");
  metadata.erase("generateName");
  metadata["name"] = pod_name(job, group, rank);
  metadata["namespace"] = job.job_namespace;
  metadata["ownerReferences"] = owner_reference(job);
  Json& labels = made_object(metadata, "labels");
  labels[kLabelAdaptdl] = "true";
  labels[kLabelJob] = job.name;
  labels[kNodeGroup] = "all";
  Json& notes = made_object(metadata, "annotations");
  notes[kNoteReplicas] = std::to_string(status.allocation.size());
  notes[kNoteGroup] = std::to_string(group);
  notes[kNoteRank] = std::to_string(rank);
  notes[kNoteNode] = place.node;

  Json& spec = made_object(pod, "spec");
  Json& containers = made_list(spec, "containers");
  if (containers.empty()) fail("spec.template.spec.containers: the list is empty");
  spec["restartPolicy"] = "Never";
  // Programs that use the API server name an account, or say so.
  if (!spec.contains("automountServiceAccountToken") &&
      text_at(spec, "serviceAccountName").empty()) {
    spec["automountServiceAccountToken"] = false;
  }
  made_object(spec, "nodeSelector")["kubernetes.io/hostname"] = node.hostname;
  spec["hostname"] = host_name_of(job, group, rank);
  std::string subdomain;
  if (needs_service(job, status)) {
    subdomain = text_at(spec, "subdomain");  // the template's, which has a Service of its own
    if (subdomain.empty()) spec["subdomain"] = subdomain = shared_name(job);
  }
  for (Json& container : containers) {
    if (!container.is_object()) fail("spec.template.spec.containers: an entry is not an object");
    add_environment(container, job, status, rank, node, settings);
    if (!job.live) add_torch_variables(container["env"], job, status, rank, subdomain);
    // The end of the log tells why a program failed, if it leaves no message.
    if (!container.contains("terminationMessagePolicy")) {
      container["terminationMessagePolicy"] = "FallbackToLogsOnError";
    }
    apply_patch(container, settings.patch_containers, "job.patch.containers");
  }
  Json& first = containers.front();
  const bool says_nothing = first.value("resources", Json()).empty();  // also null and {}
  if (!settings.default_resources.is_null() && says_nothing) {
    first["resources"] = settings.default_resources;
  }
  add_shared_memory(spec);
  add_toleration(spec);
  apply_patch(pod, settings.patch_pods, "job.patch.pods");
  complete(made_object(pod, "spec"), job, group, settings);
  return pod;
}

}  // namespace adaptdl::kubernetes
