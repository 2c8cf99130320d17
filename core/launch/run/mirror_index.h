#pragma once

// Which checkpoints of a run are in an object store: the object checkpoints.json, which makes them
// valid (adaptdl-checkpoint(5)).
//   PREFIX/checkpoints.json  {format, run, checkpoints: [{step, fresh_at, folder, files: [{name,
//                            bytes, sha256}]}], leftovers: [KEY]}; earlier versions wrote no
//                            fresh_at
//   PREFIX/FOLDER/NAME       the files of a checkpoint's folder

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::launch {

inline constexpr const char* kMirrorIndex = "checkpoints.json";

struct MirroredFile {
  std::string name;  // plain
  uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits

  bool operator==(const MirroredFile&) const = default;
};

struct MirroredCheckpoint {
  int64_t step = 0;
  std::string folder;  // differs for each content: a cut upload damages no checkpoint in the index
  std::vector<MirroredFile> files;  // manifest.json first
  // When --fresh began the training, in ms since 1970; 0: nothing did; -1: not known.
  int64_t fresh_at = 0;

  // Whether the other one is of the training that began later, whatever its step; or of a later
  // step. Where that beginning is not known, the step alone decides.
  bool older_than(const MirroredCheckpoint& other) const;
  bool operator==(const MirroredCheckpoint&) const = default;
};

struct MirrorIndex {
  std::string run;
  std::vector<MirroredCheckpoint> checkpoints;  // each older than the one before
  // Objects, "FOLDER/NAME", that may be there and belong to no checkpoint: of a cut upload or
  // removal.
  std::vector<std::string> leftovers;

  bool operator==(const MirrorIndex&) const = default;
};

// All pure.

// The folder of a checkpoint whose manifest.json has that digest.
std::string mirror_folder(int64_t step, const std::string& manifest_sha256);

// "FOLDER/NAME" of its files.
std::vector<std::string> mirror_keys(const MirroredCheckpoint& checkpoint);

// The index before the checkpoint's objects are sent: they are leftovers until they are all there.
MirrorIndex before_upload(MirrorIndex index, const MirroredCheckpoint& checkpoint);

// The index when they are: with the checkpoint as the newest and at most `keep` (>= 1) in all, of
// which all others are older. What falls out is a leftover.
MirrorIndex after_upload(MirrorIndex index, const MirroredCheckpoint& checkpoint, size_t keep);

std::string mirror_index_text(const MirrorIndex& index);

// Throws Error "WHAT: ..." for a text that is no index, of a newer format, or whose names could
// lead elsewhere.
MirrorIndex parse_mirror_index(std::string_view text, const std::string& what);

}  // namespace adaptdl::launch
