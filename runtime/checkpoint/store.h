#pragma once

// Checkpoints of one run on disk: written whole or not at all, verified when read. Torch-free.
//
// Invariants
//  1. A folder step-* was complete and on disk before it had that name; nothing in it changes
//  after.
//  2. The newest complete checkpoint is never removed before a newer one is complete.
//  3. What a killed writer leaves behind is removed by the next write; a live writer's is not. A
//  checkpoint that it had set aside for one of the same step is put back first.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "runtime/checkpoint/manifest.h"

namespace adaptdl {

// A checkpoint read and verified. Its tensors' bytes are mapped from the files (64-byte aligned)
// and valid as long as this object; later writes to the store do not disturb them.
struct LoadedCheckpoint {
  std::string path;
  CheckpointHeader header;
  std::vector<TensorView> tensors;
  std::vector<std::shared_ptr<const MappedFile>> files;

  // Null when there is no such tensor. O(number of tensors) on the first call.
  const TensorView* find(const std::string& name) const;
};

struct WrittenCheckpoint {
  std::string path;
  uint64_t bytes = 0;  // of tensors
};

// Not thread-safe; several processes may use one folder, each with its own object, but only one at
// a time writes to purpose.
class CheckpointStore {
 public:
  // `directory` is made on the first write. `keep` >= 1: the newest so many stay.
  CheckpointStore(std::string directory, int keep);

  const std::string& directory() const { return directory_; }

  // Writes and returns once everything is on disk; then removes older checkpoints beyond `keep`,
  // and those of later steps (of a history that this one replaces). A checkpoint of the same step
  // is replaced in one instant (two renames where the file system cannot exchange folders). Throws
  // Error (a full disk, say): then the folder is as it was before.
  WrittenCheckpoint write(CheckpointHeader header, const std::vector<TensorView>& tensors);

  // The newest checkpoint of which every size and checksum is right; nothing if there is none.
  // Appends to `problems` a sentence for every newer one that was passed over. Throws
  // NewerCheckpointFormat, and Error when one cannot be read: it may be right, and the first write
  // after an older one was loaded would remove it.
  std::optional<LoadedCheckpoint> latest(std::vector<std::string>* problems = nullptr) const;

  // The newest readable manifest's header, without looking at the tensors. Throws as latest().
  std::optional<CheckpointHeader> peek() const;

  // Removes all checkpoints and leftovers in the folder, and nothing else.
  void clear();

 private:
  std::vector<std::string> step_folders() const;  // names, newest first
  // Gives complete checkpoints that a killed writer had set aside their names back. Of those that
  // cannot be renamed (another process is at it, or the folder may only be read): name -> path.
  std::map<std::string, std::string> put_back() const;
  // put_back(), then all that there are: name -> path, newest first.
  std::map<std::string, std::string, std::greater<>> found() const;
  void prune(int64_t newest_step);
  void remove_folder(const std::string& name);
  void remove_leftovers(const std::map<std::string, std::string>& but);

  std::string directory_;
  int keep_;
};

}  // namespace adaptdl
