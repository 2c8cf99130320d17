#pragma once

// Checkpoints of one run on disk: written completely or not at all, verified when read. Torch-free.
//
// Invariants
//  1. A folder step-* was complete and on disk before it got that name; its contents never change
//     afterwards.
//  2. The newest complete checkpoint is never removed before a newer one is complete.
//  3. The next write removes the leftovers of a killed writer, but not those of a live one. First
//     it restores a checkpoint that the killed writer had moved aside for one of the same step.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/job/checkpoint_manifest.h"

namespace adaptdl {

// A tensor's bytes, borrowed.
struct TensorView {
  std::string name;            // 1 to 1024 bytes, unique within the checkpoint
  std::string dtype;           // float32, int64, ...: see checkpoint_dtype_bytes
  std::vector<int64_t> shape;  // at most 64 sizes >= 0
  std::span<const std::byte> bytes;
  bool finite = false;  // when written: all its numbers must be finite
};

// A verified checkpoint. Its tensors' bytes are mapped from the files (64-byte aligned) and valid
// as long as this object; later writes to the store do not affect them.
struct LoadedCheckpoint {
  std::string path;
  CheckpointHeader header;
  std::vector<TensorView> tensors;
  std::vector<std::shared_ptr<const MappedFile>> files;

  // Null if there is no such tensor. O(number of tensors).
  const TensorView* find(const std::string& name) const;
};

// A tensor that must be finite is not: no later state of this training will be, either.
class NotFinite : public Error {
 public:
  explicit NotFinite(const std::string& name)
      : Error("tensor \"" + name +
              "\" holds numbers that are not finite; earlier "
              "checkpoints stay"),
        tensor(name) {}
  const std::string tensor;  // its name
};

struct WrittenCheckpoint {
  std::string path;
  uint64_t bytes = 0;  // of tensors
};

// Not thread-safe. Several processes may use one folder, each with its own object, but only one
// should write at a time.
class CheckpointStore {
 public:
  // The first write creates `directory`. `keep` >= 1: number of newest checkpoints to keep.
  CheckpointStore(std::string directory, int keep);

  const std::string& directory() const { return directory_; }

  // Returns when everything is on disk. Then removes older checkpoints beyond `keep`, and those of
  // later steps (of a history that this one replaces): these, too, are gone from the disk when it
  // returns. Replaces a checkpoint of the same step atomically (with two renames if the file system
  // cannot exchange folders). If it throws Error (a full disk, for example; NotFinite), the folder
  // has what it had, or, if only a later step could not be removed, this checkpoint as well.
  WrittenCheckpoint write(CheckpointHeader header, const std::vector<TensorView>& tensors);

  // The newest checkpoint with correct sizes and checksums; nothing if there is none. Appends to
  // `problems` a sentence for every newer one that was skipped. Throws NewerCheckpointFormat, and
  // Error if one cannot be read: it may be intact, and the first write after loading an older one
  // would remove it.
  std::optional<LoadedCheckpoint> latest(std::vector<std::string>* problems = nullptr) const;

  // The header of the newest readable manifest; does not check the tensors. Throws as latest().
  std::optional<CheckpointHeader> peek() const;

  // Removes all checkpoints and leftovers from the folder, durably, and nothing else. Throws Error.
  void clear();

 private:
  std::vector<std::string> step_folders() const;  // names, newest first
  // Removes the checkpoints with greater names, durably. Throws Error if one has to stay.
  void remove_after(const std::string& name);
  // Renames complete checkpoints back that a killed writer had moved aside. Returns name -> path of
  // those that it cannot rename (another process uses them, or the folder is read-only).
  std::map<std::string, std::string> put_back() const;
  // Calls put_back(), then returns all checkpoints: name -> path, newest first.
  std::map<std::string, std::string, std::greater<>> found() const;
  void prune(int64_t newest_step);
  void remove_folder(const std::string& name);
  void remove_leftovers(const std::map<std::string, std::string>& but);

  std::string directory_;
  int keep_;
  bool durable_ = false;  // the folder's name is on disk
};

}  // namespace adaptdl
