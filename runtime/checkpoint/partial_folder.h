#pragma once

// Temporary folders among the checkpoints: .partial-* is being written or removed; .partial-*.old
// is a checkpoint that a writer has moved aside to give its name to a newer one of the same step.
// The process that uses such a folder holds a lock on it.

#include <functional>
#include <string>

#include "core/base/fd.h"

namespace adaptdl {

bool is_temporary_name(const std::string& name);  // of either kind
bool is_aside_name(const std::string& name);      // .partial-*.old

// A new folder under a temporary name, locked while this object lives, then removed unless renamed.
class PartialFolder {
 public:
  // Throws Error if it cannot create the folder.
  explicit PartialFolder(const std::string& directory);
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder();

  const std::string& path() const { return path_; }

  // Renames the folder to `target`, durably, and removes an earlier folder of that name. If it
  // throws Error, nothing has changed. If killed at any point, also by a power cut, the earlier
  // folder is still there, or complete under a name that is_aside_name() recognises.
  void become(const std::string& target);

 private:
  // Makes the renames durable; calls `undo` if that fails, and throws Error.
  void sync_or(const std::function<void()>& undo);

  std::string path_;  // "" if it stays there
  Fd lock_;
};

}  // namespace adaptdl
