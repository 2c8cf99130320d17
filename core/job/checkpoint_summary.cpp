#include "core/job/checkpoint_summary.h"

#include <algorithm>
#include <map>
#include <span>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/crc32c.h"
#include "core/formats/json.h"

namespace adaptdl {
namespace {

constexpr size_t kPiece = 16u << 20;  // read from the disk between two looks whether to stop

// The data files' bytes by name; one that is missing or has another size is damaged.
std::map<std::string, MappedFile> map_files(CheckpointSummary& summary) {
  std::map<std::string, MappedFile> files;
  for (const CheckpointFile& file : summary.manifest.files) {
    const std::string path = join_path(summary.path, file.name);
    if (!path_exists(path)) {
      summary.damages.push_back(fmt::format("{}: does not exist", path));
      continue;
    }
    MappedFile mapped(path);
    if (mapped.bytes().size() != file.bytes) {
      summary.damages.push_back(fmt::format("{}: has {} bytes, the manifest says {}", path,
                                            mapped.bytes().size(), file.bytes));
      continue;
    }
    files.emplace(file.name, std::move(mapped));
  }
  return files;
}

uint32_t checksum_of(std::span<const std::byte> bytes, const Cancellation* cancelled,
                     const std::string& what) {
  uint32_t sum = 0;
  do {
    if (cancelled != nullptr && cancelled->cancelled()) throw Cancelled(what);
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    sum = crc32c(piece, sum);
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
  return sum;
}

}  // namespace

CheckpointProgress progress_of(const CheckpointManifest& manifest, const std::string& what) {
  const Json& state = manifest.header.state;
  const std::string where = what + ": state.progress";
  const auto saved = json_get<Json>(state, "progress", what + ": state");
  const auto count = [&](const char* key) {
    const auto value = json_get_or<int64_t>(saved, key, where, 0);
    if (value < 0) fail("{}: {}: is {}; it must be at least 0", where, key, value);
    return value;
  };
  CheckpointProgress progress;
  progress.iterations = json_get<double>(saved, "iterations", where);
  progress.epoch = count("epoch");
  progress.pass = count("pass");
  progress.sample = count("index");
  progress.skipped = count("skipped");
  progress.replicas = count("batch_replicas");
  progress.atomic = count("atomic");
  progress.passes = count("micro_steps");
  if (__builtin_mul_overflow(progress.replicas, progress.atomic, &progress.batch) ||
      __builtin_mul_overflow(progress.batch, progress.passes, &progress.batch)) {
    fail("{}: atomic: a batch of {} x {} x {} samples is too large", where, progress.replicas,
         progress.atomic, progress.passes);
  }
  progress.atomic_limit = count("atomic_limit");
  progress.loss_scale = json_get_or<double>(saved, "loss_scale", where, 1);
  progress.validation = json_get_or<Json>(saved, "validation", where, Json::object());
  const auto valid = [](const Json& value) { return value.is_number() || value.is_string(); };
  if (!progress.validation.is_object() ||
      !std::all_of(progress.validation.begin(), progress.validation.end(), valid)) {
    fail("{}: validation: must be metrics by name", where);
  }
  // An earlier version did not have it in the state.
  const Json& settings = manifest.header.settings;
  const std::string before =
      settings.is_object() ? json_get_or<std::string>(settings, "precision", what, "") : "";
  progress.precision = json_get_or<std::string>(state, "precision", what + ": state", before);
  return progress;
}

std::vector<std::string> checkpoints_at(const std::string& path) {
  if (path_exists(join_path(path, kCheckpointManifest))) return {path};
  for (const std::string& folder : {path, join_path(path, "checkpoints")}) {
    if (!is_directory(folder)) continue;
    std::vector<std::string> names = list_directory(folder);
    std::erase_if(names, [](const std::string& name) { return !is_checkpoint_name(name); });
    if (names.empty()) continue;
    std::sort(names.rbegin(), names.rend());
    for (std::string& name : names) name = join_path(folder, name);
    return names;
  }
  return {};
}

int64_t newest_checkpoint_step(const std::string& folder) {
  int64_t newest = -1;
  if (!is_directory(folder)) return newest;
  for (const std::string& name : list_directory(folder)) {
    if (!is_checkpoint_name(name)) continue;
    newest = std::max(newest, try_parse<int64_t>(name.substr(5)).value_or(-1));
  }
  return newest;
}

int64_t fresh_at(const CheckpointHeader& header) {
  const auto found = header.state.find("fresh_at");
  return found != header.state.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

CheckpointManifest read_checkpoint_manifest(const std::string& folder) {
  const std::string path = join_path(folder, kCheckpointManifest);
  return parse_checkpoint_manifest(read_file(path, kMaxManifestBytes), path);
}

CheckpointSummary inspect_checkpoint(const std::string& folder, const Cancellation* cancelled) {
  CheckpointSummary summary;
  summary.path = folder;
  summary.manifest = read_checkpoint_manifest(folder);
  summary.progress = progress_of(summary.manifest, join_path(folder, kCheckpointManifest));
  const auto files = map_files(summary);
  for (const CheckpointTensor& tensor : summary.manifest.tensors) {
    summary.bytes += tensor.bytes;
    const auto file = files.find(tensor.file);
    bool intact = file != files.end();
    if (intact && checksum_of(file->second.bytes().subspan(tensor.offset, tensor.bytes), cancelled,
                              folder) != tensor.crc32c) {
      summary.damages.push_back(fmt::format("{}: the checksum of {} differs: the file was damaged",
                                            join_path(folder, tensor.file), tensor.name));
      intact = false;
    }
    summary.intact.push_back(intact);
  }
  return summary;
}

}  // namespace adaptdl
