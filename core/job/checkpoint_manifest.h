#pragma once

// The contents of a checkpoint, and the file manifest.json that describes them.
//
// A checkpoint is a folder step-NNNNNNNNNNNN (the step, 12 digits) with
//   manifest.json  one JSON object, UTF-8:
//     format      1. A reader that knows only a smaller number must refuse the checkpoint.
//     checksum    CRC-32C, 8 lower-case hexadecimal digits, of the object without this key, written
//                 without whitespace and with sorted keys. The same in all later formats.
//     job         name of the run
//     step        optimizer steps finished, 0 to 999999999999
//     generation  number of the generation that wrote it
//     created     RFC 3339 UTC
//     finished    true: the run had finished
//     settings    JSON: the settings of the run
//     state       JSON: all state but tensors (counters, schedule, sampler, statistics, ...)
//     files       [{name, bytes}]: data files beside the manifest; plain names, exact sizes
//     tensors     [{name, dtype, shape, file, offset, bytes, crc32c}]: little-endian, dense, row by
//                 row; `offset` in the file is a multiple of 64; crc32c as above
//   data.bin, ...  the tensors' bytes
// The writer uses another name and renames the folder when all of it is on disk.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace adaptdl {

inline constexpr int kCheckpointFormat = 1;
inline constexpr const char* kCheckpointManifest = "manifest.json";
inline constexpr size_t kMaxManifestBytes = 64u << 20;
inline constexpr int64_t kMaxCheckpointStep = 999'999'999'999;
inline constexpr size_t kCheckpointAlignment = 64;  // bytes, of a tensor within its file

// A checkpoint of a newer format. A reader must not fall back to an older checkpoint, which has
// less progress.
class NewerCheckpointFormat : public Error {
 public:
  using Error::Error;
};

// Plain data. Numbers in `settings` and `state` must be finite (others are written as null).
struct CheckpointHeader {
  std::string job;
  int64_t step = 0;  // [0, kMaxCheckpointStep]
  uint64_t generation = 0;
  std::string created;  // filled by CheckpointStore::write when empty
  bool finished = false;
  nlohmann::json settings;
  nlohmann::json state;
};

struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
};

struct CheckpointTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string file;
  uint64_t offset = 0, bytes = 0;
  uint32_t crc32c = 0;
};

struct CheckpointManifest {
  CheckpointHeader header;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
};

// The name of a checkpoint's folder, and whether a name is of one.
std::string checkpoint_name(int64_t step);
bool is_checkpoint_name(std::string_view name);

// Bytes of one element; 0 for a name that is none of float16, bfloat16, float32, float64,
// complex64, complex128, int8 to int64, uint8 to uint64, bool.
size_t checkpoint_dtype_bytes(std::string_view dtype);

// The text of the manifest. Throws Error if parse_checkpoint_manifest would refuse it.
std::string checkpoint_manifest_text(const CheckpointManifest& manifest);

// Parses the manifest and checks the bounds above, and that every tensor lies inside a listed file
// and has the bytes that dtype and shape imply. Throws Error "WHAT: ...", or NewerCheckpointFormat.
// Pure.
CheckpointManifest parse_checkpoint_manifest(std::string_view text, const std::string& what);

}  // namespace adaptdl
