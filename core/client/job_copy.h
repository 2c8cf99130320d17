#pragma once

// Copies files to and from a job's folder, without reading or writing outside of it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adaptdl::client {

// The path in `folder` that "JOB:/path" names; "/" is the folder itself. /adaptdl/checkpoint and
// /adaptdl/share, as in the pods of a job on Kubernetes, are checkpoints and share. Throws
// UsageError for a path that leaves the folder (..), and Error for one that is in none of
// local::kCopiedFolders.
std::string path_in_job(const std::string& folder, const std::string& path);

struct CopyResult {
  int64_t files = 0;
  uint64_t bytes = 0;
  std::vector<std::string> skipped;  // one sentence each; also what was removed meanwhile
  std::vector<std::string> changed;  // while they were copied; one sentence each
};

// Copies a file, or a folder with its contents, to `to`, or into it if that is an existing folder,
// there as `name` ("": its own name).
// Keeps modes and times. A symlink inside of what is copied is copied as a symlink if it points, by
// a relative path, to something below `root`. Other symlinks and special files are skipped. What
// disappears from a folder during the copy is skipped. Throws Error if `from` or its target is not
// below `root`, if `to` is not below `target_root` (unless empty), or if a file cannot be read or
// written; no partial file remains.
CopyResult copy_below(const std::string& from, const std::string& root, const std::string& to,
                      const std::string& target_root, const std::string& name = "");

}  // namespace adaptdl::client
