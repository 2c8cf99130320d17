#include "core/launch/run/mirror_index.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/formats/json.h"
#include "core/job/checkpoint_manifest.h"

namespace adaptdl::launch {
namespace {

constexpr int kMirrorFormat = 1;
constexpr size_t kMostCheckpoints = 10'000, kMostFilesOfOne = 1025, kMostLeftovers = 100'000;
constexpr size_t kFolderDigits = 8;  // of the manifest's digest

bool is_plain_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

MirroredCheckpoint parse_checkpoint(const Json& from, const std::string& what) {
  MirroredCheckpoint checkpoint;
  checkpoint.step = json_get<int64_t>(from, "step", what);
  if (checkpoint.step < 0 || checkpoint.step > kMaxCheckpointStep) {
    fail("{}: step: {} is not from 0 to {}", what, checkpoint.step, kMaxCheckpointStep);
  }
  checkpoint.fresh_at = json_find<int64_t>(from, "fresh_at", what).value_or(-1);
  if (checkpoint.fresh_at < -1) fail("{}: fresh_at: {} is below 0", what, checkpoint.fresh_at);
  checkpoint.folder = json_get<std::string>(from, "folder", what);
  std::set<std::string> names;
  for (const Json& entry : json_get<std::vector<Json>>(from, "files", what)) {
    MirroredFile file{json_get<std::string>(entry, "name", what),
                      json_get<uint64_t>(entry, "bytes", what),
                      json_get<std::string>(entry, "sha256", what)};
    if (!is_plain_name(file.name))
      fail("{}: files: '{}' is not a plain file name", what, file.name);
    if (!is_sha256(file.sha256)) fail("{}: files: {}: sha256 is no digest", what, file.name);
    if (!names.insert(file.name).second) fail("{}: files: {} is listed twice", what, file.name);
    checkpoint.files.push_back(std::move(file));
  }
  if (checkpoint.files.empty() || checkpoint.files.front().name != kCheckpointManifest ||
      checkpoint.files.size() > kMostFilesOfOne) {
    fail("{}: files: must be {} and at most {} others", what, kCheckpointManifest,
         kMostFilesOfOne - 1);
  }
  if (checkpoint.folder != mirror_folder(checkpoint.step, checkpoint.files.front().sha256)) {
    fail("{}: folder: '{}' is not that of its step and manifest", what, checkpoint.folder);
  }
  return checkpoint;
}

// Adds those that are not there yet, and removes what `checkpoints` has.
void add_leftovers(MirrorIndex& index, const std::vector<std::string>& keys) {
  std::set<std::string> all(index.leftovers.begin(), index.leftovers.end());
  all.insert(keys.begin(), keys.end());
  for (const MirroredCheckpoint& checkpoint : index.checkpoints) {
    for (const std::string& key : mirror_keys(checkpoint)) all.erase(key);
  }
  index.leftovers.assign(all.begin(), all.end());
}

}  // namespace

bool MirroredCheckpoint::older_than(const MirroredCheckpoint& other) const {
  if (fresh_at < 0 || other.fresh_at < 0) return step < other.step;
  return std::pair(fresh_at, step) < std::pair(other.fresh_at, other.step);
}

std::string mirror_folder(int64_t step, const std::string& manifest_sha256) {
  return checkpoint_name(step) + "-" + manifest_sha256.substr(0, kFolderDigits);
}

std::vector<std::string> mirror_keys(const MirroredCheckpoint& checkpoint) {
  std::vector<std::string> keys;
  for (const MirroredFile& file : checkpoint.files) {
    keys.push_back(checkpoint.folder + "/" + file.name);
  }
  return keys;
}

MirrorIndex before_upload(MirrorIndex index, const MirroredCheckpoint& checkpoint) {
  add_leftovers(index, mirror_keys(checkpoint));
  return index;
}

MirrorIndex after_upload(MirrorIndex index, const MirroredCheckpoint& checkpoint, size_t keep) {
  std::vector<std::string> gone;
  std::vector<MirroredCheckpoint> kept{checkpoint};
  for (MirroredCheckpoint& other : index.checkpoints) {
    if (other.older_than(checkpoint) && kept.size() < keep) {
      kept.push_back(std::move(other));
    } else {
      for (std::string& key : mirror_keys(other)) gone.push_back(std::move(key));
    }
  }
  index.checkpoints = std::move(kept);
  add_leftovers(index, gone);
  return index;
}

std::string mirror_index_text(const MirrorIndex& index) {
  Json checkpoints = Json::array();
  for (const MirroredCheckpoint& checkpoint : index.checkpoints) {
    Json files = Json::array();
    for (const MirroredFile& file : checkpoint.files) {
      files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
    }
    checkpoints.push_back(
        {{"step", checkpoint.step}, {"folder", checkpoint.folder}, {"files", std::move(files)}});
    if (checkpoint.fresh_at >= 0) checkpoints.back()["fresh_at"] = checkpoint.fresh_at;
  }
  const Json json = {{"format", kMirrorFormat},
                     {"run", index.run},
                     {"checkpoints", std::move(checkpoints)},
                     {"leftovers", index.leftovers}};
  return json.dump(1) + "\n";
}

MirrorIndex parse_mirror_index(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what);
  const auto format = json_get<int64_t>(json, "format", what);
  if (format > kMirrorFormat) {
    fail("{}: has format {}, this adaptdl reads format {}: continue with a newer adaptdl", what,
         format, kMirrorFormat);
  }
  if (format != kMirrorFormat) fail("{}: format: {} does not exist", what, format);
  MirrorIndex index;
  index.run = json_get<std::string>(json, "run", what);
  for (const Json& entry : json_get<std::vector<Json>>(json, "checkpoints", what)) {
    if (index.checkpoints.size() == kMostCheckpoints) fail("{}: too many checkpoints", what);
    MirroredCheckpoint checkpoint = parse_checkpoint(entry, what + ": checkpoints");
    if (!index.checkpoints.empty() && !checkpoint.older_than(index.checkpoints.back())) {
      fail("{}: checkpoints: must be sorted, the newest first", what);
    }
    index.checkpoints.push_back(std::move(checkpoint));
  }
  index.leftovers = json_get<std::vector<std::string>>(json, "leftovers", what);
  if (index.leftovers.size() > kMostLeftovers) fail("{}: too many leftovers", what);
  for (const std::string& key : index.leftovers) {
    const std::vector<std::string> parts = split(key, '/');
    if (parts.size() != 2 || !is_plain_name(parts[0]) || !is_plain_name(parts[1])) {
      fail("{}: leftovers: '{}' is not FOLDER/NAME", what, key);
    }
  }
  return index;
}

}  // namespace adaptdl::launch
