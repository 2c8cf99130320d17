#pragma once

// Makes the custom resource for a Kubernetes cluster from a submission. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/job/job_spec.h"

namespace adaptdl::client {

// The storage of AdaptDL's jobs.
inline constexpr const char* kCheckpointFolder = "/adaptdl/checkpoint";
inline constexpr const char* kShareFolder = "/adaptdl/share";
inline constexpr const char* kTensorboardFolder = "/adaptdl/tensorboard";

// The AdaptDLJob of a specification.
Json manifest_of(const JobSpec& spec);

struct ManifestChanges {
  std::string name_prefix;  // "": unchanged
  std::string name_space;
  std::vector<std::string> arguments;  // of the first container; none: unchanged
  std::optional<ReplicaRange> replicas;
  std::optional<int> retries;
  bool restartable = false;   // true: it becomes so
  Accelerators accelerators;  // none: unchanged
  std::string role;           // ROLE_NAME in the first container; "": unchanged
  std::string image;          // for the first container, and for containers without one
  std::string claim;          // PersistentVolumeClaim for checkpoints and shared files; "": none
  std::string tensorboard;    // name of an instance; "": none
  std::string pull_secret;    // ""
  std::string architecture;   // of the nodes for its pods; "": any
};
// Requires: an object of manifest_of(), or JobFile::manifest.
void change_manifest(Json& job, const ManifestChanges& changes);

// The image of the first container; "" if it has none.
std::string manifest_image(const Json& job);

}  // namespace adaptdl::client
