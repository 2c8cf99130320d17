#pragma once

// The facts about a pod that the controller needs, read from what the API server sent.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Labels and annotations of a job's pods, as in AdaptDL.
inline constexpr const char* kLabelAdaptdl = "adaptdl";  // "true"
inline constexpr const char* kLabelJob = "adaptdl/job";  // the job's name
inline constexpr const char* kNoteReplicas = "adaptdl/replicas";
inline constexpr const char* kNoteGroup = "adaptdl/group";
inline constexpr const char* kNoteRank = "adaptdl/rank";
inline constexpr const char* kNoteNode = "adaptdl/node";

// Exit code of a program that was asked to stop, and has written its checkpoint: 128 + SIGTERM.
inline constexpr int kAskedToStop = 143;

// How a pod has ended, or is about to end.
enum class PodEnd {
  none,  // it has not
  succeeded,
  disrupted,  // evicted, preempted, refused by its node, deleted, or asked to stop (exit 143):
              // not the program's fault, so the restart does not count as a failure
  memory,     // a container ran out of memory
  failed,
};

struct PodFacts {
  std::string name, uid, owner_uid;  // owner_uid: of its controller; "" if it has none
  std::string job;                   // label; "" if it has none
  int64_t group = -1;                // -1: annotation missing or invalid
  int rank = -1, replicas = -1;      // likewise
  std::string node;                  // the node it was made for
  std::string ip;
  bool scheduled = false, ready = false, deleting = false;
  PodEnd end = PodEnd::none;
  int exit_code = 0;   // of the container that decided `end`
  double ended_s = 0;  // since 1970; when that container ended; 0 if unknown
  double created_s = 0;
  double deleted_s = 0;         // end of its grace time; 0 if it is not being deleted
  double grace_s = 0;           // that time; 0 if it is not being deleted
  std::string reason, message;  // why it waits or ended; "" if there is no problem
  // torch.load has refused the program's own AdaptDL checkpoint, see pickle_refusal.h.
  bool needs_pickles = false;
};

// Never throws: a value of a wrong type counts as absent, since anybody may create a pod with our
// labels.
PodFacts read_pod(const Json& object);

// Whether a failed pod's reason means that its node refused it, for a lack that the scheduler, or
// whoever chose the node, did not know.
bool is_node_refusal(std::string_view reason);

}  // namespace adaptdl::kubernetes
