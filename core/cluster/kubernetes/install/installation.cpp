#include "core/cluster/kubernetes/install/installation.h"

#include <algorithm>
#include <array>
#include <thread>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/install/install_diff.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/cluster/kubernetes/nodes/node_expander.h"
#include "core/formats/json_fields.h"
#include "core/kube/informer.h"
#include "core/kube/logs.h"

namespace adaptdl::kubernetes {

namespace {

constexpr Seconds kPollInterval{0.2};
constexpr const char* kPodsOfOperator = "app.kubernetes.io/name=adaptdl-operator";
const kube::Resource kBindings{
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "", ""};
// Kinds whose objects keep a namespace from being removed. Roles of others alone are of no use.
const std::array<InstalledKind, 11> kUses = {{
    {std::string(kJobKind), kJobs},
    {"PersistentVolumeClaim", kube::kClaims},
    {"Pod", kube::kPods},
    {"Deployment", kube::kDeployments},
    {"StatefulSet", {"apps", "v1", "statefulsets", "", "", ""}},
    {"DaemonSet", {"apps", "v1", "daemonsets", "", "", ""}},
    {"CronJob", {"batch", "v1", "cronjobs", "", "", ""}},
    {"Job", {"batch", "v1", "jobs", "", "", ""}},
    {"Service", kube::kServices},
    {"Secret", kube::kSecrets},
    {"ConfigMap", kube::kConfigMaps},
}};

std::string label_of(const Json& object) {
  return object.value(Json::json_pointer("/metadata/labels/adaptdl~1installed-by"), "");
}

// Objects of every kind, in the order of application; kinds that the cluster does not know have
// none.
std::vector<Json> owned_objects(kube::Client& client, const std::string& labels) {
  std::vector<Json> result;
  for (const auto& [kind, collection] : installed_kinds()) {
    kube::ObjectList found;
    try {
      found = client.list(collection, {.labels = labels});
    } catch (const kube::ApiError& error) {
      if (!error.not_found()) throw;
    }
    for (Json& object : found.items) {
      object["kind"] = kind;
      result.push_back(std::move(object));
    }
  }
  return result;
}

bool is_of_a_job(const Json& object) {
  const Json owners = object.value("/metadata/ownerReferences"_json_pointer, Json::array());
  return std::any_of(owners.begin(), owners.end(),
                     [](const Json& owner) { return owner.value("kind", "") == kJobKind; });
}

// Whether the cluster is still removing what deleted jobs have left.
bool jobs_left_something(kube::Client& client) {
  const auto has_some = [&](const kube::Resource& kind, const std::string& labels) {
    const kube::ObjectList found = client.list(kind, {.labels = labels});
    return std::any_of(found.items.begin(), found.items.end(), is_of_a_job);
  };
  const std::string labels = fmt::format("{}=true", kLabelAdaptdl);
  // Claims that other programs made, such as AdaptDL's own, need not have the label.
  return has_some(kube::kPods, labels) || has_some(kube::kSecrets, labels) ||
         has_some(kube::kClaims, "");
}

std::string owned_by(const std::string& name_space) {
  return fmt::format("{}={}", kLabelInstalled, name_space);
}

// Created by the operator, not by manifests().
bool is_operators_own(const Json& object) {
  const std::string kind = object.value("kind", "");
  return kind == "Secret" || kind == "Lease";
}

// What jobs need to continue under the next installation: their definition, the key from which
// their tokens are derived, and the authority that running pods trust.
bool is_needed_by_jobs(const Json& object) {
  const std::string kind = object.value("kind", ""), name = kube::metadata_text(object, "name");
  return kind == "Namespace" || name == kDefinition ||
         (kind == "Secret" && (name == kKeySecret || name == kSupervisorSecret));
}

bool may_be_others(const Json& object) {
  const std::string kind = object.value("kind", "");
  return kind == "Namespace" || kind == "CustomResourceDefinition" || is_data(object);
}

// What brings a kind that some clusters do not know, and how to do without it; "" for other kinds.
std::string if_unknown(const std::string& kind) {
  if (kind.starts_with("ValidatingAdmissionPolicy")) {
    return "which Kubernetes 1.30 brought; set admissionPolicy.enabled to false";
  }
  if (kind != "ServiceMonitor" && kind != "PrometheusRule") return "";
  return fmt::format(
      "which comes with Prometheus's operator; install that first, or leave metrics.{}.enabled "
      "false",
      kind == "ServiceMonitor" ? "serviceMonitor" : "prometheusRule");
}

// An object in the cluster. For kinds that the cluster may not know, a missing kind is an Error:
// only the answer for a missing object names the object.
std::optional<Json> find_known(kube::Client& client, const kube::Resource& place,
                               const std::string& kind) {
  const std::string advice = if_unknown(kind);
  if (advice.empty()) return client.find(place);
  try {
    return client.get(place);
  } catch (const kube::ApiError& error) {
    if (!error.not_found()) throw;
    if (!error.status().name.empty()) return std::nullopt;
    fail("the cluster does not know the kind {}, {}", kind, advice);
  }
}

// The last log line of a crashed operator; "" if it is not available.
std::string last_words(kube::Client& client, const Json& pod) {
  std::string line;
  for (const bool previous : {true, false}) {
    try {
      const auto [space, name] = kube::name_of(pod);
      kube::logs(client, kube::kPods.in(space, name), {.previous = previous, .tail = 1},
                 [&](std::string_view text) { line = text; });
    } catch (const Error&) {  // the container was not started that often
    }
    if (!line.empty()) break;
  }
  return line;
}

std::string why_operators_wait(kube::Client& client, const std::string& name_space) {
  const auto deployment = client.find(kube::kDeployments.in(name_space, kDeployment));
  if (!deployment) return "Deployment " + std::string(kDeployment) + " not found";
  const kube::ObjectList pods =
      client.list(kube::kPods.in(name_space), {.labels = kPodsOfOperator});
  std::string why = why_not_ready(*deployment, pods.items);
  if (why.find("CrashLoopBackOff") == std::string::npos) return why;
  for (const Json& pod : pods.items) {
    const std::string name = kube::metadata_text(pod, "name");
    if (why.find(name) == std::string::npos) continue;
    if (const std::string words = last_words(client, pod); !words.empty()) {
      why += "; its last log line: " + words;
    }
  }
  return why;
}

// Whether an object belongs to an installation, or the cluster creates it in each namespace.
bool comes_with_it(const std::string& kind, const Json& object) {
  return !label_of(object).empty() ||
         (kind == "ConfigMap" && kube::metadata_text(object, "name") == "kube-root-ca.crt") ||
         (kind == "Secret" &&
          text_at_pointer(object, "/type") == "kubernetes.io/service-account-token");
}

// An object in a namespace that no installation created, and that would be deleted with the
// namespace;
// "" if there is none.
std::string other_thing_in(kube::Client& client, const std::string& name_space) {
  for (const auto& [kind, collection] : kUses) {
    kube::ObjectList found;
    try {
      found = client.list(collection.in(name_space), {.trim = [](Json& object) {
                            for (const char* key : {"data", "binaryData", "spec"}) {
                              object.erase(key);
                            }
                          }});
    } catch (const kube::ApiError& error) {
      if (!error.not_found()) throw;  // the definition of jobs is gone
    }
    for (const Json& object : found.items) {
      if (comes_with_it(kind, object)) continue;
      return fmt::format("{} {}", kind, kube::metadata_text(object, "name"));
    }
  }
  return "";
}

// The cluster would delete jobs with their definition.
void refuse_jobs(kube::Client& client) {
  const size_t jobs = count_jobs(client);
  if (jobs == 0) return;
  fail(
      "{} AdaptDLJob{} submitted meanwhile, so the definition of jobs is kept: delete them and "
      "uninstall again, or give --keep-jobs",
      jobs, jobs == 1 ? " was" : "s were");
}

// Polls until `done` returns true; false if it timed out.
bool wait_until(Monotonic::time_point end, const std::function<bool()>& done,
                Seconds interval = kPollInterval) {
  while (!done()) {
    if (Monotonic::now() >= end) return false;
    std::this_thread::sleep_for(interval);
  }
  return true;
}

Monotonic::time_point after(Seconds patience) {
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(patience);
}

}  // namespace

std::optional<std::string> installed_in(kube::Client& client) {
  const auto binding = client.find(kBindings.named("adaptdl"));
  if (!binding) return std::nullopt;
  const std::string name_space = label_of(*binding);
  if (name_space.empty()) {
    fail(
        "this cluster has another installation of AdaptDL (ClusterRoleBinding adaptdl); remove it "
        "first, but keep the definition {}: the cluster deletes all jobs with it",
        kDefinition);
  }
  return name_space;
}

std::optional<std::string> remains_in(kube::Client& client) {
  for (const Json& object : owned_objects(client, kLabelInstalled)) return label_of(object);
  return std::nullopt;
}

Json installed_values(kube::Client& client, const std::string& name_space) {
  const auto found = client.find(kube::kConfigMaps.in(name_space, kConfigMap));
  if (!found) return Json::object();
  return parse_json(found->value(Json::json_pointer("/data/values.json"), "{}"),
                    fmt::format("ConfigMap {} in {}", kConfigMap, name_space));
}

std::vector<ObjectChange> plan_installation(kube::Client& client, std::vector<Json> wanted,
                                            const std::string& name_space) {
  std::vector<ObjectChange> changes;
  std::vector<kube::Resource> places;
  for (Json& object : wanted) {
    const kube::Resource place = resource_of(object);
    places.push_back(place);
    const auto found = find_known(client, place, object.value("kind", ""));
    if (!found) {
      changes.push_back({ObjectChange::What::create, std::move(object), {}});
      continue;
    }
    if (label_of(*found).empty()) {
      if (!may_be_others(object)) {
        fail("{} already exists and does not belong to this installation; remove or rename it",
             place.describe());
      }
      if (object.value("kind", "") == "Namespace") continue;
      object["metadata"]["labels"].erase(kLabelInstalled);
    }
    const Json after =
        client.apply(place, object, {.field_manager = kInstaller, .force = true, .dry_run = true});
    std::vector<std::string> lines = changed_fields(*found, after);
    if (lines.empty()) continue;
    changes.push_back({ObjectChange::What::change, std::move(object), std::move(lines)});
  }
  for (Json& object : owned_objects(client, owned_by(name_space))) {
    const std::string path = resource_of(object).path();
    const bool stays = is_operators_own(object) || may_be_others(object) ||
                       std::any_of(places.begin(), places.end(), [&](const kube::Resource& place) {
                         return place.path() == path;
                       });
    if (!stays) changes.push_back({ObjectChange::What::remove, std::move(object), {}});
  }
  return changes;
}

void carry_out(kube::Client& client, const ObjectChange& change) {
  const kube::Resource place = resource_of(change.object);
  if (change.what == ObjectChange::What::remove) {
    client.remove(place);
    return;
  }
  client.apply(place, change.object, {.field_manager = kInstaller, .force = true});
}

void wait_until_ready(kube::Client& client, const std::string& name_space, Seconds patience,
                      const std::function<void(const std::string&)>& news) {
  std::string said;
  const bool ready = wait_until(after(patience), [&] {
    const std::string why = why_operators_wait(client, name_space);
    if (why != said && !why.empty()) news(why);
    said = why;
    return why.empty();
  });
  if (!ready) {
    throw Error(
        fmt::format("the operators were not ready within {:.0f} s: {}", patience.count(), said),
        ExitCode::timeout);
  }
}

size_t count_jobs(kube::Client& client) {
  try {
    const auto trim = [](Json& object) { object = Json::object(); };
    return client.list(kJobs, {.trim = trim}).items.size();
  } catch (const kube::ApiError& error) {
    if (error.not_found()) return 0;
    throw;
  }
}

void remove_installation(kube::Client& client, const std::string& name_space, bool keep_jobs,
                         Seconds patience, const std::function<void(const std::string&)>& news) {
  const Monotonic::time_point end = after(patience);
  std::vector<Json> objects = owned_objects(client, owned_by(name_space));
  std::reverse(objects.begin(), objects.end());
  // Called after the operators are gone, so that no new placeholders are created.
  const auto clear_placeholders = [&] {
    remove_placeholders(client, name_space);
    if (wait_until(end, [&] { return !has_placeholders(client, name_space); })) return;
    throw Error("placeholder pods are still being removed; try again later", ExitCode::timeout);
  };
  for (const Json& object : objects) {
    const kube::Resource place = resource_of(object);
    if (keep_jobs && is_needed_by_jobs(object)) continue;
    const std::string kind = object.value("kind", "");
    if (kind == "Namespace") {
      clear_placeholders();
      const std::string other = other_thing_in(client, name_space);
      if (!other.empty()) {
        news(fmt::format("Namespace {}: kept, since it has other resources, such as {}", name_space,
                         other));
        continue;
      }
    }
    // Without the definition the cluster would not find the owners of these objects, and keep them.
    // It lists much of the cluster.
    const auto jobs_are_gone = [&] {
      const bool left = jobs_left_something(client);
      refuse_jobs(client);  // right before the definition goes
      return !left;
    };
    if (place.name == kDefinition && !wait_until(end, jobs_are_gone, 5 * kPollInterval)) {
      throw Error("pods, secrets or volume claims of deleted jobs still exist; try again later",
                  ExitCode::timeout);
    }
    kube::DeleteOptions how;
    // The operators end first, so that they do not create again what is deleted next.
    if (kind == "Deployment") how.propagation = kube::DeleteOptions::Propagation::foreground;
    if (!client.remove(place, how)) continue;
    if (!wait_until(end, [&] { return !client.find(place); })) {
      throw Error(fmt::format("{} is still being removed after {:.0f} s; try again later",
                              place.describe(), patience.count()),
                  ExitCode::timeout);
    }
    news(describe_object(object) + ": removed");
  }
  clear_placeholders();  // needed if the namespace existed before the installation
}

}  // namespace adaptdl::kubernetes
