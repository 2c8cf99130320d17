#pragma once

// The files of a job on Kubernetes, and a pod that reaches them when no replica runs. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "core/client/job_copy.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// The folder with all of a job's storage, in its pods and in copy_pod().
inline constexpr const char* kStorageFolder = "/adaptdl";

// The path in the job's pods that "JOB:/path" names: /adaptdl/checkpoint/... and /adaptdl/share/...
// as in AdaptDL, or /checkpoints/... and /share/... as for jobs of this machine; "/" is
// kStorageFolder. Throws UsageError for a path with "..", Error for a path elsewhere.
std::string storage_path(const std::string& path);

// The job's PersistentVolumeClaim, as `adaptdl submit` and AdaptDL create it; "" if it has none.
std::string storage_claim(const Json& job);

// The commands with which a pod of the job's image reads and writes the storage: tar and other
// system tools, or, in an image with little but this program, this program's own.
struct StorageTools {
  explicit StorageTools(const Json& job);

  std::vector<std::string> wait(int seconds) const;
  std::vector<std::string> is_folder(const std::string& path) const;  // exit code 0: a folder
  std::vector<std::string> pack(const std::string& folder,
                                const std::vector<std::string>& members) const;
  // Whether pack(), which ended with exit code `code`, packed all files that did not change
  // meanwhile. Its standard error about the other files becomes sentences of `result`.
  bool packed(int code, std::string_view said, CopyResult& result) const;
  std::vector<std::string> unpack(const std::string& folder) const;  // reads all of its input

  bool own = false;  // use this program's commands
};

// Begins the lines of this program's pack() about changed files; other lines are skipped files.
inline constexpr const char* kChangedMark = "changed: ";

// Seconds that a copy pod lives if this program is killed.
inline constexpr int kCopyPodLife_s = 6 * 3600;

// A pod of the job's image, user and nodes that only mounts its claim. It has no right that the
// job's own pods lack, and is deleted with the claim, whose uid is `claim_uid`.
Json copy_pod(const Json& job, const std::string& claim, const std::string& claim_uid);

}  // namespace adaptdl::client
