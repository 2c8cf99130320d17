#pragma once

// Where a job on Kubernetes has its files, and a pod that reaches them when no replica runs. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "core/client/job_copy.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// What holds all of a job's storage, in its pods and in the one below.
inline constexpr const char* kStorageFolder = "/adaptdl";

// The path in its pods that "JOB:/path" names: /adaptdl/checkpoint/... and /adaptdl/share/... as
// AdaptDL has them, or /checkpoints/... and /share/... as jobs of this machine have them; "/" is
// kStorageFolder. Throws UsageError for one with "..", Error for one elsewhere.
std::string storage_path(const std::string& path);

// The job's PersistentVolumeClaim, as `adaptdl submit` and AdaptDL make it; "" if it has none.
std::string storage_claim(const Json& job);

// The commands by which a pod of the job's image reaches it: tar and others of a system, or, in an
// image that has little but this program, this program's.
struct StorageTools {
  explicit StorageTools(const Json& job);

  std::vector<std::string> wait(int seconds) const;
  std::vector<std::string> is_folder(const std::string& path) const;  // exit code 0: it is
  std::vector<std::string> pack(const std::string& folder,
                                const std::vector<std::string>& members) const;
  // Whether pack() that ended by `code` packed all that stayed where and as it was. What it said of
  // the rest on its standard error becomes sentences of `result`.
  bool packed(int code, std::string_view said, CopyResult& result) const;
  std::vector<std::string> unpack(const std::string& folder) const;  // reads all of its input

  bool own = false;  // this program's
};

// Before what this program's pack() says has changed, not been skipped.
inline constexpr const char* kChangedMark = "changed: ";

// How long it lives if this program is killed.
inline constexpr int kCopyPodLife_s = 6 * 3600;

// A pod of the job's image, user and nodes that does nothing but mount its claim. It has no right
// that the job's own pods lack, and goes with the claim, whose uid is `claim_uid`.
Json copy_pod(const Json& job, const std::string& claim, const std::string& claim_uid);

}  // namespace adaptdl::client
