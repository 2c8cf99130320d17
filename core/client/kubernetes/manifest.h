#pragma once

// From a submission to the object that a Kubernetes cluster gets. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/job/job_spec.h"

namespace adaptdl::client {

// Where AdaptDL's jobs find their storage.
inline constexpr const char* kCheckpointFolder = "/adaptdl/checkpoint";
inline constexpr const char* kShareFolder = "/adaptdl/share";
inline constexpr const char* kTensorboardFolder = "/adaptdl/tensorboard";

// The AdaptDLJob of a specification.
Json manifest_of(const JobSpec& spec);

struct ManifestChanges {
  std::string name_prefix;  // "": as it is
  std::string name_space;
  std::vector<std::string> arguments;  // of the first container; none: as they are
  std::optional<ReplicaRange> replicas;
  std::string image;         // of containers that have none, and of the first one
  std::string claim;         // PersistentVolumeClaim for checkpoints and shared files; "": none
  std::string tensorboard;   // name of an instance; "": none
  std::string pull_secret;   // ""
  std::string architecture;  // of the nodes that its pods are kept to; "": any
};
// Requires: an object of manifest_of(), or JobFile::manifest.
void change_manifest(Json& job, const ManifestChanges& changes);

// Of the first container; "" if it has none.
std::string manifest_image(const Json& job);

}  // namespace adaptdl::client
