#include "core/job/checkpoint_manifest.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "core/formats/crc32c.h"
#include "core/formats/json.h"

namespace adaptdl {
namespace {

constexpr size_t kMostTensors = 1'000'000;
constexpr size_t kMostFiles = 1024;
constexpr size_t kLongestTensorName = 1024;
constexpr size_t kMostDimensions = 64;
constexpr uint64_t kLargestFile = uint64_t{1} << 50;

std::string checksum_of(const Json& manifest_without_checksum, const std::string& what) {
  try {
    return fmt::format("{:08x}", crc32c(manifest_without_checksum.dump()));
  } catch (const Json::exception& error) {
    fail("{}: cannot write it as JSON: {}", what, error.what());
  }
}

// A file name that cannot refer to another folder.
bool plain_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 255 && name[0] != '.' && name != "manifest.json" &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool tensor_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestTensorName &&
         std::none_of(name.begin(), name.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

uint32_t parse_crc(const std::string& text, const std::string& what) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != 8 || !std::all_of(text.begin(), text.end(), digit)) {
    fail("{}: crc32c: '{}' is not 8 lower-case hexadecimal digits", what, text);
  }
  uint32_t crc = 0;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  return crc;
}

// The bytes that dtype and shape imply; throws Error on overflow.
uint64_t dense_bytes(const CheckpointTensor& tensor, const std::string& what) {
  uint64_t bytes = checkpoint_dtype_bytes(tensor.dtype);
  if (bytes == 0) fail("{}: dtype: unknown type '{}'", what, tensor.dtype);
  if (tensor.shape.size() > kMostDimensions) {
    fail("{}: shape: more than {} dimensions", what, kMostDimensions);
  }
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      fail("{}: shape: a dimension is negative or too large", what);
    }
  }
  return bytes;
}

CheckpointTensor parse_tensor(const Json& from, const std::string& what,
                              const std::unordered_map<std::string, uint64_t>& files) {
  CheckpointTensor tensor;
  tensor.name = json_get<std::string>(from, "name", what);
  if (!tensor_name(tensor.name))
    fail("{}: name: must be 1 to {} bytes without control characters", what, kLongestTensorName);
  tensor.dtype = json_get<std::string>(from, "dtype", what);
  tensor.shape = json_get<std::vector<int64_t>>(from, "shape", what);
  tensor.file = json_get<std::string>(from, "file", what);
  tensor.offset = json_get<uint64_t>(from, "offset", what);
  tensor.bytes = json_get<uint64_t>(from, "bytes", what);
  tensor.crc32c = parse_crc(json_get<std::string>(from, "crc32c", what), what);
  if (dense_bytes(tensor, what) != tensor.bytes) {
    fail("{}: bytes: {} does not match dtype and shape", what, tensor.bytes);
  }
  const auto file = files.find(tensor.file);
  if (file == files.end()) fail("{}: file: '{}' is not listed", what, tensor.file);
  if (tensor.offset % kCheckpointAlignment != 0 || tensor.offset > file->second ||
      tensor.bytes > file->second - tensor.offset) {
    fail("{}: offset: {} bytes at {} are outside the file's {} bytes, or not aligned", what,
         tensor.bytes, tensor.offset, file->second);
  }
  return tensor;
}

Json to_json(const CheckpointManifest& manifest) {
  Json files = Json::array(), tensors = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  for (const CheckpointTensor& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"file", tensor.file},
                       {"offset", tensor.offset},
                       {"bytes", tensor.bytes},
                       {"crc32c", fmt::format("{:08x}", tensor.crc32c)}});
  }
  const CheckpointHeader& header = manifest.header;
  return {{"format", kCheckpointFormat}, {"job", header.job},
          {"step", header.step},         {"generation", header.generation},
          {"created", header.created},   {"finished", header.finished},
          {"settings", header.settings}, {"state", header.state},
          {"files", std::move(files)},   {"tensors", std::move(tensors)}};
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("step-{:012}", step);
}

bool is_checkpoint_name(std::string_view name) {
  return name.size() == 17 && name.starts_with("step-") &&
         std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

size_t checkpoint_dtype_bytes(std::string_view dtype) {
  static const std::unordered_map<std::string_view, size_t> sizes = {
      {"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8},   {"int8", 1},
      {"int16", 2},   {"int32", 4},    {"int64", 8},   {"uint8", 1},     {"uint16", 2},
      {"uint32", 4},  {"uint64", 8},   {"bool", 1},    {"complex64", 8}, {"complex128", 16}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

std::string checkpoint_manifest_text(const CheckpointManifest& manifest) {
  const std::string what = fmt::format("checkpoint of step {}", manifest.header.step);
  Json json = to_json(manifest);
  const std::string checksum = checksum_of(json, what);
  json["checksum"] = checksum;
  std::string text = json.dump(1) + "\n";
  parse_checkpoint_manifest(text, what);  // never write a manifest that cannot be read
  return text;
}

CheckpointManifest parse_checkpoint_manifest(std::string_view text, const std::string& what) {
  Json json = parse_json(text, what);
  const std::string checksum = json_get<std::string>(json, "checksum", what);
  json.erase("checksum");
  if (checksum != checksum_of(json, what)) {
    fail("{}: its checksum differs: the file was damaged or edited", what);
  }
  const int64_t format = json_get<int64_t>(json, "format", what);
  if (format > kCheckpointFormat) {
    throw NewerCheckpointFormat(
        fmt::format("{}: the checkpoint has format {}; this adaptdl reads format {}: continue "
                    "with a newer adaptdl, or train from the beginning with --fresh",
                    what, format, kCheckpointFormat));
  }
  if (format != kCheckpointFormat) fail("{}: format: {} does not exist", what, format);

  CheckpointManifest manifest;
  CheckpointHeader& header = manifest.header;
  header.job = json_get<std::string>(json, "job", what);
  header.step = json_get<int64_t>(json, "step", what);
  if (header.step < 0 || header.step > kMaxCheckpointStep) {
    fail("{}: step: {} is not from 0 to {}", what, header.step, kMaxCheckpointStep);
  }
  header.generation = json_get<uint64_t>(json, "generation", what);
  header.created = json_get<std::string>(json, "created", what);
  header.finished = json_get<bool>(json, "finished", what);
  header.settings = json_get<Json>(json, "settings", what);
  header.state = json_get<Json>(json, "state", what);

  std::unordered_map<std::string, uint64_t> sizes;
  for (const Json& from : json_get<std::vector<Json>>(json, "files", what)) {
    CheckpointFile file{json_get<std::string>(from, "name", what),
                        json_get<uint64_t>(from, "bytes", what)};
    if (!plain_name(file.name)) fail("{}: files: '{}' is not a plain file name", what, file.name);
    if (file.bytes > kLargestFile) fail("{}: files: {} is too large", what, file.name);
    if (!sizes.emplace(file.name, file.bytes).second) {
      fail("{}: files: {} is listed twice", what, file.name);
    }
    manifest.files.push_back(std::move(file));
  }
  if (manifest.files.size() > kMostFiles) fail("{}: more than {} files", what, kMostFiles);

  const auto& list = json_get<Json>(json, "tensors", what);
  if (!list.is_array() || list.size() > kMostTensors) {
    fail("{}: tensors: must be a list of at most {}", what, kMostTensors);
  }
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    CheckpointTensor tensor = parse_tensor(list[i], fmt::format("{}: tensors.{}", what, i), sizes);
    if (!names.insert(tensor.name).second) {
      fail("{}: tensors: {} is listed twice", what, tensor.name);
    }
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

}  // namespace adaptdl
