#pragma once

// Folders among the checkpoints that are none, or not yet: .partial-* is being written or removed,
// .partial-*.old is the checkpoint that a writer has set aside to give its name to a newer one of
// the same step. The process at such a folder holds a lock on it.

#include <string>

#include "core/base/fd.h"

namespace adaptdl {

bool is_temporary_name(const std::string& name);  // of either kind
bool is_aside_name(const std::string& name);      // .partial-*.old

// A new folder under a temporary name, locked while this object lives, then removed unless renamed.
class PartialFolder {
 public:
  // Throws Error when it cannot be made.
  explicit PartialFolder(const std::string& directory);
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder();

  const std::string& path() const { return path_; }

  // Gives the folder its final name, and removes what had that name. Throws Error: then all is as
  // before. Killed at any instant, it leaves what had the name there, or complete under a name
  // that is_aside_name() knows.
  void become(const std::string& target);

 private:
  std::string path_;
  Fd lock_;
};

}  // namespace adaptdl
