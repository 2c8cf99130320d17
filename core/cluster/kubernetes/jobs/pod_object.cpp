#include "core/cluster/kubernetes/jobs/pod_object.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/formats/json_fields.h"
#include "core/launch/command/pickle_refusal.h"
#include "core/launch/command/program_error.h"

namespace adaptdl::kubernetes {

namespace {

int number(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number_integer()
             ? static_cast<int>(std::clamp<int64_t>(value.get<int64_t>(), -1, 1 << 20))
             : 0;
}

// A number in an annotation; -1 if there is none that we write, so that one can still be added.
int noted(const Json& notes, const char* key) {
  constexpr int kMost = 1'000'000'000;
  const int value = try_parse<int>(text_at(notes, key)).value_or(-1);
  return value >= 0 && value <= kMost ? value : -1;
}

double seconds_at(const Json& object, const char* key) {
  return parse_rfc3339_s(text_at(object, key)).value_or(0);
}

// Whether a failed pod's reason is the node's or the cluster's fault, not the program's.
bool is_disruption(const std::string& reason) {
  static constexpr std::array<std::string_view, 7> kReasons = {
      "Evicted", "Preempting", "Preempted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"};
  return is_node_refusal(reason) ||
         std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

// Whether a waiting container's reason is a problem, not the usual start.
bool is_trouble(const std::string& reason) {
  return !reason.empty() && reason != "ContainerCreating" && reason != "PodInitializing";
}

// Names of the sidecars: init containers that run with the others and are always restarted.
std::set<std::string> sidecars_of(const Json& spec) {
  std::set<std::string> names;
  for (const Json& container : list_at(spec, "initContainers")) {
    if (text_at(container, "restartPolicy") == "Always") names.insert(text_at(container, "name"));
  }
  return names;
}

// The message that a container left. It may be the error file of torchrun's programs, or the end of
// the log, whose last line says most.
std::string end_message(const std::string& text) {
  const auto error = launch::parse_program_error(text);
  if (error && !error->message.empty()) return error->message;
  constexpr const char* kBlank = " \t\r\n";
  const size_t end = text.find_last_not_of(kBlank);
  if (end == std::string::npos) return "";
  const size_t before = text.rfind('\n', end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

// `sidecars`: containers whose end is not the pod's end.
void look_at_containers(const Json& status, const char* key, const std::set<std::string>& sidecars,
                        PodFacts& pod) {
  for (const Json& container : list_at(status, key)) {
    const Json& state = object_at(container, "state");
    const Json& waiting = object_at(state, "waiting");
    if (pod.reason.empty() && is_trouble(text_at(waiting, "reason"))) {
      pod.reason = text_at(waiting, "reason");
      pod.message = text_at(waiting, "message");
    }
    const Json& ended = object_at(state, "terminated");
    if (ended.empty() || sidecars.contains(text_at(container, "name"))) continue;
    const int code = number(ended, "exitCode");
    const double when = seconds_at(ended, "finishedAt");
    if (code == 0 || (pod.ended_s > 0 && when >= pod.ended_s)) continue;
    pod.exit_code = code;
    pod.ended_s = when;
    pod.end = code == kAskedToStop                      ? PodEnd::disrupted
              : text_at(ended, "reason") == "OOMKilled" ? PodEnd::memory
                                                        : PodEnd::failed;
    pod.reason = text_at(ended, "reason");
    const std::string message = text_at(ended, "message");
    pod.message = end_message(message);
    pod.needs_pickles = launch::refused_own_pickle(message);
  }
}

void read_end(const Json& object, PodFacts& pod) {
  const Json& status = object_at(object, "status");
  const std::string phase = text_at(status, "phase");
  look_at_containers(status, "initContainerStatuses", sidecars_of(object_at(object, "spec")), pod);
  look_at_containers(status, "containerStatuses", {}, pod);
  if (phase == "Succeeded") {
    pod.end = PodEnd::succeeded;
    pod.reason.clear();
  } else if (phase == "Failed") {
    const std::string reason = text_at(status, "reason");
    if (is_disruption(reason) || pod.end == PodEnd::none) {
      pod.end = is_disruption(reason) || pod.deleting ? PodEnd::disrupted : PodEnd::failed;
      pod.reason = reason;
      pod.message = text_at(status, "message");
    }
  }
}

void read_conditions(const Json& status, PodFacts& pod) {
  for (const Json& condition : list_at(status, "conditions")) {
    const std::string type = text_at(condition, "type");
    const bool is = text_at(condition, "status") == "True";
    if (type == "PodScheduled") {
      pod.scheduled = is;
      if (!is && text_at(condition, "reason") == "Unschedulable") {
        pod.reason = "Unschedulable";
        pod.message = text_at(condition, "message");
      }
    } else if (type == "Ready") {
      pod.ready = is;
    } else if (type == "DisruptionTarget" && is && pod.end != PodEnd::succeeded) {
      pod.end = PodEnd::disrupted;
      pod.reason = text_at(condition, "reason");
      pod.message = text_at(condition, "message");
    }
  }
}

}  // namespace

bool is_node_refusal(std::string_view reason) {
  static constexpr std::array<std::string_view, 6> kReasons = {"UnexpectedAdmissionError",
                                                               "TopologyAffinityError",
                                                               "SMTAlignmentError",
                                                               "NodeAffinity",
                                                               "NodePorts",
                                                               "TaintToleration"};
  return reason.starts_with("Outof") || reason.starts_with("OutOf") ||
         std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

PodFacts read_pod(const Json& object) {
  PodFacts pod;
  const Json& metadata = object_at(object, "metadata");
  const Json& notes = object_at(metadata, "annotations");
  const Json& status = object_at(object, "status");
  pod.name = text_at(metadata, "name");
  pod.uid = text_at(metadata, "uid");
  for (const Json& owner : list_at(metadata, "ownerReferences")) {
    if (member(owner, "controller") == true) pod.owner_uid = text_at(owner, "uid");
  }
  pod.job = text_at(object_at(metadata, "labels"), kLabelJob);
  pod.group = try_parse<int64_t>(text_at(notes, kNoteGroup)).value_or(-1);
  pod.rank = noted(notes, kNoteRank);
  pod.replicas = noted(notes, kNoteReplicas);
  pod.node = text_at(notes, kNoteNode);
  pod.ip = text_at(status, "podIP");
  pod.created_s = seconds_at(metadata, "creationTimestamp");
  pod.deleted_s = seconds_at(metadata, "deletionTimestamp");
  pod.deleting = pod.deleted_s > 0;
  const Json& grace = member(metadata, "deletionGracePeriodSeconds");
  if (grace.is_number()) pod.grace_s = std::max(0.0, grace.get<double>());
  read_end(object, pod);
  read_conditions(status, pod);
  // The pod was deleted while it ran, so its program's end is not a failure.
  if (pod.deleting && pod.end != PodEnd::succeeded) pod.end = PodEnd::disrupted;
  return pod;
}

}  // namespace adaptdl::kubernetes
