#include "core/cluster/kubernetes/install/install_diff.h"

#include <set>

#include "core/cluster/kubernetes/jobs/pod_object.h"

namespace adaptdl::kubernetes {

namespace {

constexpr size_t kLongestValue = 80;  // bytes shown of a value

Json without_accounts(Json object) {
  if (!object.is_object()) return object;
  object.erase("status");
  Json& metadata = object["metadata"];
  for (const char* key :
       {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"}) {
    if (metadata.is_object()) metadata.erase(key);
  }
  return object;
}

std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "...";
  return text;
}

void compare(const Json* before, const Json* after, const std::string& path,
             std::vector<std::string>& lines) {
  if (before != nullptr && after != nullptr) {
    if (*before == *after) return;
    if (before->is_object() && after->is_object()) {
      std::set<std::string> keys;
      for (const auto& [key, value] : before->items()) keys.insert(key);
      for (const auto& [key, value] : after->items()) keys.insert(key);
      for (const std::string& key : keys) {
        const auto old = before->find(key), now = after->find(key);
        compare(old == before->end() ? nullptr : &*old, now == after->end() ? nullptr : &*now,
                path.empty() ? key : path + "." + key, lines);
      }
      return;
    }
    if (before->is_array() && after->is_array() && before->size() == after->size()) {
      for (size_t i = 0; i < before->size(); ++i) {
        compare(&(*before)[i], &(*after)[i], fmt::format("{}[{}]", path, i), lines);
      }
      return;
    }
  }
  lines.push_back(fmt::format("{}: {} -> {}", path, before == nullptr ? "none" : shown(*before),
                              after == nullptr ? "none" : shown(*after)));
}

int64_t number_at(const Json& object, const char* path) {
  const Json::json_pointer pointer(path);
  return object.contains(pointer) && object[pointer].is_number_integer()
             ? object[pointer].get<int64_t>()
             : 0;
}

}  // namespace

std::vector<std::string> changed_fields(const Json& before, const Json& after) {
  std::vector<std::string> lines;
  const Json old = without_accounts(before), now = without_accounts(after);
  compare(&old, &now, "", lines);
  return lines;
}

std::string why_not_ready(const Json& deployment, const std::vector<Json>& pods) {
  const int64_t wanted = number_at(deployment, "/spec/replicas");
  const int64_t updated = number_at(deployment, "/status/updatedReplicas");
  const int64_t available = number_at(deployment, "/status/availableReplicas");
  const bool seen = number_at(deployment, "/status/observedGeneration") >=
                    number_at(deployment, "/metadata/generation");
  if (seen && updated == wanted && available >= wanted &&
      number_at(deployment, "/status/replicas") == wanted) {
    return "";
  }
  // The youngest: pods of an older template are being replaced.
  PodFacts worst;
  for (const Json& pod : pods) {
    PodFacts facts = read_pod(pod);
    if (facts.ready || facts.deleting || facts.reason.empty()) continue;
    if (worst.name.empty() || facts.created_s > worst.created_s) worst = std::move(facts);
  }
  if (!worst.name.empty()) {
    const std::string why = fmt::format("pod {}: {}", worst.name, worst.reason);
    return worst.message.empty() ? why : why + ": " + worst.message;
  }
  // Pods that cannot be created: a quota, a pod security level.
  const Json conditions = deployment.value("/status/conditions"_json_pointer, Json::array());
  for (const Json& condition : conditions) {
    if (condition.value("type", "") == "ReplicaFailure" &&
        condition.value("status", "") == "True") {
      return condition.value("message", "the cluster cannot create its pods");
    }
  }
  return fmt::format("{} of {} pods are ready", seen ? std::min(available, updated) : 0, wanted);
}

}  // namespace adaptdl::kubernetes
