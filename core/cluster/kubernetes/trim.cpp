#include "core/cluster/kubernetes/trim.h"

#include <initializer_list>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/formats/json_fields.h"
#include "core/job/worker_environment.h"
#include "core/kube/answer.h"

namespace adaptdl::kubernetes {

namespace {

// At the object's top level, where the API server keeps no fields that it does not know.
constexpr const char* kSizeProblem = "adaptdl/sizeProblem";
constexpr const char* kAbridged = "adaptdl/abridged";
constexpr size_t kMostLikeness = 16u << 10;  // bytes of memory

void keep_only(Json& object, std::initializer_list<const char*> keys) {
  if (!object.is_object()) return;
  Json kept = Json::object();
  for (const char* key : keys) {
    const auto found = object.find(key);
    if (found != object.end()) kept[key] = std::move(*found);
  }
  object = std::move(kept);
}

template <typename Function>
void within(Json& object, const char* key, const Function& function) {
  if (!object.is_object()) return;
  const auto found = object.find(key);
  if (found != object.end()) function(*found);
}

template <typename Function>
void for_each(Json& list, const Function& function) {
  if (!list.is_array()) return;
  for (Json& element : list) function(element);
}

void keep_ours(Json& notes) {
  if (!notes.is_object()) return;
  for (auto it = notes.begin(); it != notes.end();) {
    it = it.key().starts_with("adaptdl") ? std::next(it) : notes.erase(it);
  }
}

// Approximately the memory that the value takes.
size_t memory_of(const Json& value) {
  constexpr size_t kOwn = 16, kText = 32, kStructure = 64, kMember = 80;
  if (value.is_string()) return kOwn + kText + value.get_ref<const std::string&>().size();
  if (!value.is_structured()) return kOwn;
  size_t sum = kOwn + kStructure;
  if (value.is_array()) {
    for (const Json& element : value) sum += memory_of(element);
  } else {
    for (const auto& [key, member] : value.items()) {
      sum += kMember + key.size() + memory_of(member);
    }
  }
  return sum;
}

// What the lengths of later jobs are estimated by: image, command and arguments of the first
// container, or the image alone if they are long.
Json likeness_of(const Json& pod_template) {
  const Json& containers = list_at(object_at(pod_template, "spec"), "containers");
  Json kept = Json::object();
  for (const char* key : {"image", "command", "args"}) {
    if (containers.empty()) break;
    if (const Json& value = member(containers.front(), key); !value.is_null()) kept[key] = value;
  }
  if (memory_of(kept) > kMostLikeness) keep_only(kept, {"image"});
  return memory_of(kept) > kMostLikeness ? Json::object() : kept;
}

// Where pods may run and what they take, the first container's likeness, and whether it decides how
// torch.load reads.
Json placement_only(const Json& pod_template) {
  Json spec = object_at(pod_template, "spec");
  keep_only(spec, {"containers", "initContainers", "overhead", "resources", "nodeSelector",
                   "affinity", "tolerations"});
  within(spec, "affinity", [](Json& affinity) { keep_only(affinity, {"nodeAffinity"}); });
  Json first = likeness_of(pod_template);
  const Json& containers = list_at(spec, "containers");
  if (!containers.empty() && has_named(list_at(containers.front(), "env"), kLoadPicklesVariable)) {
    first["env"] = Json::array({{{"name", kLoadPicklesVariable}}});
  }
  for (const char* key : {"containers", "initContainers"}) {
    within(spec, key, [](Json& list) {
      for_each(list, [](Json& each) { keep_only(each, {"name", "resources", "restartPolicy"}); });
    });
  }
  within(spec, "containers", [&first](Json& list) {
    if (list.is_array() && !list.empty() && list.front().is_object()) list.front().update(first);
  });
  return {{"spec", std::move(spec)}};
}

}  // namespace

std::string size_problem(const Json& pod_template) {
  const size_t memory = memory_of(pod_template);
  if (memory > kMostTemplate) {
    return "spec.template: takes more than 1 MiB of memory; give large data as a ConfigMap or a "
           "volume";
  }
  if (memory > kMostKept && memory_of(placement_only(pod_template)) > kMostPlacement) {
    return "spec.template: what the scheduler reads of it (names, images, commands and resources "
           "of containers, node selector, affinity, tolerations) takes more than 64 KiB of memory";
  }
  return "";
}

void trim_job(Json& object) {
  if (!object.is_object()) return;
  within(object, "metadata", [](Json& metadata) {
    keep_only(metadata, {"name", "namespace", "uid", "resourceVersion", "generation",
                         "creationTimestamp", "deletionTimestamp"});
  });
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) return;
  const auto found = spec->find("template");
  if (found == spec->end()) return;
  if (kube::too_deep(object)) {
    *found = Json::object();
  } else if (std::string problem = size_problem(*found); !problem.empty()) {
    *found = Json::object();
    object[kSizeProblem] = std::move(problem);
  } else if (has_ended(text_at(object_at(object, "status"), "phase"))) {
    const Json first = likeness_of(*found);
    *found =
        first.empty() ? Json::object() : Json{{"spec", {{"containers", Json::array({first})}}}};
  } else if (memory_of(*found) > kMostKept) {
    *found = placement_only(*found);
    object[kAbridged] = true;
  }
}

void trim_if_too_large(Json& object) {
  if (!size_problem(member(object_at(object, "spec"), "template")).empty()) trim_job(object);
}

std::string noted_size_problem(const Json& object) {
  return text_at(object, kSizeProblem);
}

bool is_abridged(const Json& object) {
  return object.is_object() && object.contains(kAbridged);
}

void trim_pod(Json& pod) {
  within(pod, "metadata", [](Json& metadata) {
    keep_only(metadata, {"name", "namespace", "uid", "resourceVersion", "labels", "annotations",
                         "ownerReferences", "creationTimestamp", "deletionTimestamp",
                         "deletionGracePeriodSeconds"});
    within(metadata, "labels", keep_ours);
    within(metadata, "annotations", keep_ours);
  });
  within(pod, "spec", [](Json& spec) {
    keep_only(spec, {"nodeName", "containers", "initContainers", "overhead", "resources"});
    for (const char* key : {"containers", "initContainers"}) {
      within(spec, key, [](Json& containers) {
        for_each(containers, [](Json& container) {
          keep_only(container, {"name", "resources", "restartPolicy"});
        });
      });
    }
  });
  within(pod, "status", [](Json& status) {
    keep_only(status, {"phase", "reason", "message", "podIP", "conditions", "containerStatuses",
                       "initContainerStatuses"});
    for (const char* key : {"containerStatuses", "initContainerStatuses"}) {
      within(status, key, [](Json& containers) {
        for_each(containers, [](Json& container) { keep_only(container, {"name", "state"}); });
      });
    }
  });
}

void trim_node(Json& node) {
  within(node, "metadata", [](Json& metadata) {
    keep_only(metadata, {"name", "uid", "resourceVersion", "labels", "deletionTimestamp"});
  });
  within(node, "spec", [](Json& spec) { keep_only(spec, {"taints", "unschedulable"}); });
  within(node, "status", [](Json& status) {
    keep_only(status, {"allocatable", "conditions"});
    // Without their heartbeats, which would make each update a change.
    within(status, "conditions", [](Json& conditions) {
      for_each(conditions, [](Json& condition) { keep_only(condition, {"type", "status"}); });
    });
  });
}

}  // namespace adaptdl::kubernetes
