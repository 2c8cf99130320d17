#pragma once

// From a job file to the object that a Kubernetes cluster gets. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/job/job_spec.h"

namespace adaptdl::cli {

// Where AdaptDL's jobs find their storage.
inline constexpr const char* kCheckpointFolder = "/adaptdl/checkpoint";
inline constexpr const char* kShareFolder = "/adaptdl/share";
inline constexpr const char* kTensorboardFolder = "/adaptdl/tensorboard";

// An AdaptDLJob from a file in AdaptDL's form; every other key of its pods goes to the cluster as
// it is. Throws Error "WHERE:LINE: KEY: ..." for what is none, and for the numbers that
// core/job/adaptdl_job.h checks.
Json read_job_manifest(const std::string& text, const std::string& where);
// Whether a file has that form.
bool is_job_manifest(const std::string& text, const std::string& where);

// One of a specification that was read for this machine.
Json manifest_of(const JobSpec& spec);

struct ManifestChanges {
  std::string name_prefix;  // "": as it is
  std::string name_space;
  std::vector<std::string> arguments;  // of the first container; none: as they are
  std::optional<int> min_replicas, max_replicas;
  std::string image;         // of containers that have none, and of the first one
  std::string claim;         // PersistentVolumeClaim for checkpoints and shared files; "": none
  std::string tensorboard;   // name of an instance; "": none
  std::string pull_secret;   // ""
  std::string architecture;  // of the nodes that its pods are kept to; "": any
};
// Requires: an object as the functions above return it.
void change_manifest(Json& job, const ManifestChanges& changes);

// Of the first container; "" if it has none.
std::string manifest_image(const Json& job);

}  // namespace adaptdl::cli
