#include "core/client/kubernetes/manifest.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/client/image/image_self.h"

namespace adaptdl::client {
namespace {

constexpr const char* kClaimVolume = "adaptdl-pvc";
constexpr const char* kTensorboardVolume = "adaptdl-tensorboard";

Json& pod_of(Json& job) {
  return job["spec"]["template"]["spec"];
}

// Replaces entries of the same name: the user's could not work.
void put(Json& list, const Json& entry, const char* key = "name") {
  if (!list.is_array()) list = Json::array();
  for (Json& each : list) {
    if (each.value(key, Json()) == entry[key]) {
      each = entry;
      return;
    }
  }
  list.push_back(entry);
}

void mount(Json& container, const char* volume, const char* path, const char* sub_path) {
  Json entry = {{"name", volume}, {"mountPath", path}};
  if (sub_path != nullptr) entry["subPath"] = sub_path;
  put(container["volumeMounts"], entry, "mountPath");
}

void add_volume(Json& pod, const char* name, const std::string& claim) {
  put(pod["volumes"], {{"name", name}, {"persistentVolumeClaim", {{"claimName", claim}}}});
}

void add_variable(Json& container, const char* name, const char* value) {
  put(container["env"], {{"name", name}, {"value", value}});
}

// Removes a bound that is not given, and the job file's requested number of other bounds.
void change_replicas(Json& spec, const ReplicaRange& range) {
  spec["minReplicas"] = range.min;
  const auto put_or_erase = [&](const char* key, bool given) {
    if (given) {
      spec[key] = *range.max;
    } else {
      spec.erase(key);
    }
  };
  put_or_erase("maxReplicas", range.max.has_value());
  put_or_erase("requestedReplicas", range.fixed);
}

// Amounts as the API writes them.
Json resources_of(const ReplicaRequest& request) {
  Json amounts = Json::object(), limits = Json::object();
  if (request.cpu_millicores) amounts["cpu"] = fmt::format("{}m", *request.cpu_millicores);
  if (request.memory_bytes) amounts["memory"] = std::to_string(*request.memory_bytes);
  if (request.gpus.value_or(0) > 0) limits["nvidia.com/gpu"] = std::to_string(*request.gpus);
  Json resources = Json::object();
  if (!amounts.empty()) resources["requests"] = amounts;
  if (!limits.empty()) resources["limits"] = limits;
  return resources;
}

// The command in each pod of an archive or executable: the image's own `adaptdl run`.
Json run_arguments(const JobSpec& spec) {
  Json words = Json::array({"run", spec.program});
  for (const std::string& setting : spec.settings) {
    words.push_back("--set");
    words.push_back(setting);
  }
  // Otherwise each pod would use all cores of its node.
  if (spec.request.cpu_millicores) {
    words.push_back("--threads");
    words.push_back(std::to_string(std::max<int64_t>(1, *spec.request.cpu_millicores / 1000)));
  }
  if (!spec.arguments.empty()) words.push_back("--");
  for (const std::string& argument : spec.arguments) words.push_back(argument);
  return words;
}

}  // namespace

Json manifest_of(const JobSpec& spec) {
  Json container = {{"name", "main"}};
  const bool trains = spec.kind != JobSpec::Kind::command;
  container["command"] = Json::array({trains ? kProgramPlace : spec.program});
  if (trains) {
    container["args"] = run_arguments(spec);
  } else if (!spec.arguments.empty()) {
    container["args"] = spec.arguments;
  }
  if (!spec.directory.empty()) container["workingDir"] = spec.directory;
  for (const auto& [name, value] : spec.environment) {
    add_variable(container, name.c_str(), value.c_str());
  }
  if (const Json resources = resources_of(spec.request); !resources.empty()) {
    container["resources"] = resources;
  }
  Json job = {{"apiVersion", "adaptdl.petuum.com/v1"}, {"kind", "AdaptDLJob"}};
  job["metadata"] = Json::object();
  if (!spec.name.empty()) job["metadata"]["name"] = spec.name;
  const std::string prefix =
      spec.name_prefix.empty() ? job_name_prefix(spec.program) : spec.name_prefix;
  if (spec.name.empty()) job["metadata"]["generateName"] = prefix;
  Json& described = job["spec"];
  described["template"]["spec"]["containers"] = Json::array({container});
  described["template"]["spec"]["terminationGracePeriodSeconds"] =
      static_cast<int64_t>(spec.grace_s);
  described["minReplicas"] = spec.min_replicas;
  if (spec.max_replicas) described["maxReplicas"] = *spec.max_replicas;
  if (spec.requested_replicas) described["requestedReplicas"] = *spec.requested_replicas;
  described["preemptible"] = spec.preemptible;
  if (spec.restartable) described["restartable"] = *spec.restartable;
  if (const Accelerators& names = spec.request.accelerators; !names.empty()) {
    described["accelerators"] = names;
  }
  described["backoffLimit"] = spec.retries;
  if (trains) described["liveRescale"] = true;
  return job;
}

void change_manifest(Json& job, const ManifestChanges& changes) {
  Json& metadata = job["metadata"];
  metadata["namespace"] = changes.name_space;
  if (!changes.name_prefix.empty()) {
    metadata.erase("name");
    metadata["generateName"] = changes.name_prefix;
  }
  if (!metadata.contains("name") && !metadata.contains("generateName")) {
    metadata["generateName"] = "adaptdl-job-";
  }
  if (changes.replicas) change_replicas(job["spec"], *changes.replicas);
  if (changes.restartable) job["spec"]["restartable"] = true;
  if (!changes.accelerators.empty()) job["spec"]["accelerators"] = changes.accelerators;
  if (changes.retries) job["spec"]["backoffLimit"] = *changes.retries;
  Json& pod = pod_of(job);
  Json& containers = pod["containers"];
  if (!changes.arguments.empty()) containers[0]["args"] = changes.arguments;
  if (!changes.role.empty()) add_variable(containers[0], kRoleVariable, changes.role.c_str());
  if (!changes.image.empty()) {
    containers[0]["image"] = changes.image;
    for (Json& container : containers) {
      if (!container.contains("image")) container["image"] = changes.image;
    }
  }
  if (!changes.pull_secret.empty()) {
    put(pod["imagePullSecrets"], {{"name", changes.pull_secret}});
  }
  if (!changes.architecture.empty()) {
    pod["nodeSelector"]["kubernetes.io/arch"] = changes.architecture;
  }
  if (!changes.claim.empty()) add_volume(pod, kClaimVolume, changes.claim);
  if (!changes.tensorboard.empty()) {
    add_volume(pod, kTensorboardVolume, "adaptdl-tensorboard-" + changes.tensorboard);
  }
  for (Json& container : containers) {
    if (!changes.claim.empty()) {
      mount(container, kClaimVolume, kCheckpointFolder, "adaptdl/checkpoint");
      mount(container, kClaimVolume, kShareFolder, "adaptdl/share");
      add_variable(container, "ADAPTDL_CHECKPOINT_PATH", kCheckpointFolder);
      add_variable(container, "ADAPTDL_SHARE_PATH", kShareFolder);
    }
    if (!changes.tensorboard.empty()) {
      mount(container, kTensorboardVolume, kTensorboardFolder, nullptr);
      add_variable(container, "ADAPTDL_TENSORBOARD_LOGDIR", kTensorboardFolder);
    }
  }
}

std::string manifest_image(const Json& job) {
  const Json& container = job["spec"]["template"]["spec"]["containers"][0];
  const Json image = container.is_object() ? container.value("image", Json()) : Json();
  return image.is_string() ? image.get<std::string>() : "";
}

}  // namespace adaptdl::client
