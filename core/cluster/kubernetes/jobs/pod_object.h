#pragma once

// What the controller needs of a pod, read from what the API server sent.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Labels and annotations of a job's pods, as AdaptDL has them.
inline constexpr const char* kLabelAdaptdl = "adaptdl";  // "true"
inline constexpr const char* kLabelJob = "adaptdl/job";  // the job's name
inline constexpr const char* kNoteReplicas = "adaptdl/replicas";
inline constexpr const char* kNoteGroup = "adaptdl/group";
inline constexpr const char* kNoteRank = "adaptdl/rank";
inline constexpr const char* kNoteNode = "adaptdl/node";

// How a pod ended, or is about to.
enum class PodEnd {
  none,  // it has not
  succeeded,
  disrupted,  // evicted, preempted, refused by its node, deleted, or asked to stop (exit 143):
              // nobody's fault, so it is started again without being counted
  memory,     // a container had no memory left
  failed,
};

struct PodFacts {
  std::string name, uid, owner_uid;  // owner_uid: of its controller; "" if it has none
  std::string job;                   // label; "" if it has none
  int64_t group = -1;                // -1: no annotation, or nonsense
  int rank = -1, replicas = -1;      // likewise
  std::string node;                  // that it was made for
  std::string ip;
  bool scheduled = false, ready = false, deleting = false;
  PodEnd end = PodEnd::none;
  int exit_code = 0;   // of the container that decided `end`
  double ended_s = 0;  // since 1970; when that container ended; 0 if unknown
  double created_s = 0;
  double deleted_s = 0;         // when its grace is over; 0 if it is not being deleted
  std::string reason, message;  // why it waits, or why it ended; "" if all is well
};

// Never throws: what is of a wrong type counts as absent, since anybody may make a pod with our
// labels.
PodFacts read_pod(const Json& object);

// Whether a failed pod's reason says that its node did not admit it: the scheduler, or whoever
// chose the node, did not know of what the node lacks.
bool is_node_refusal(std::string_view reason);

}  // namespace adaptdl::kubernetes
