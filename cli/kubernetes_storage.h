#pragma once

// Where a job on Kubernetes has its files, and a pod that reaches them when no replica runs. Pure.

#include <string>

#include "core/base/json.h"

namespace adaptdl::cli {

// What holds all of a job's storage, in its pods and in the one below.
inline constexpr const char* kStorageFolder = "/adaptdl";

// The path in its pods that "JOB:/path" names: /adaptdl/checkpoint/... and /adaptdl/share/... as
// AdaptDL has them, or /checkpoints/... and /share/... as jobs of this machine have them; "/" is
// kStorageFolder. Throws UsageError for one with "..", Error for one elsewhere.
std::string storage_path(const std::string& path);

// The job's PersistentVolumeClaim, as `adaptdl submit` and AdaptDL make it; "" if it has none.
std::string storage_claim(const Json& job);

// How long it lives if this program is killed.
inline constexpr int kCopyPodLife_s = 6 * 3600;

// A pod of the job's image, user and nodes that does nothing but mount its claim. It has no right
// that the job's own pods lack, and goes with the claim, whose uid is `claim_uid`.
Json copy_pod(const Json& job, const std::string& claim, const std::string& claim_uid);

}  // namespace adaptdl::cli
