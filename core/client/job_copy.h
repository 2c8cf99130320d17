#pragma once

// Copying files to and from a job's folder, such that nothing outside of it is read or written.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adaptdl::client {

// The path in `folder` that "JOB:/path" names; "/" is the folder itself. Throws UsageError for a
// path that leads out of it (..), and Error for one that is in none of local::kCopiedFolders.
std::string path_in_job(const std::string& folder, const std::string& path);

struct CopyResult {
  int64_t files = 0;
  uint64_t bytes = 0;
  std::vector<std::string> skipped;  // one sentence each
  std::vector<std::string> changed;  // while they were copied; likewise
};

// Copies a file, or a folder with all in it, to `to`; into it, if that is a folder that exists.
// Modes and times are kept. A symbolic link inside of what is copied is copied as a link if it
// leads to something below `root`, by a relative path; others, and what is no file, are skipped.
// Throws Error: `from` or its target is not below `root`; `target_root` (if not empty) likewise for
// `to`; a file cannot be read or written (half a file is not left behind).
CopyResult copy_below(const std::string& from, const std::string& root, const std::string& to,
                      const std::string& target_root);

}  // namespace adaptdl::client
