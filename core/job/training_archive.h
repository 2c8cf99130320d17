#pragma once

// Reads a train.pt (adaptdl-train(5)) without LibTorch: its settings and the list of its
// parameters. Does not run its code. Thread-safe (pure functions on files).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace adaptdl {

inline constexpr const char* kSettingsFile = "adaptdl.yaml";

struct ArchiveTensor {
  enum class Kind { parameter, buffer, attribute };
  Kind kind = Kind::attribute;
  std::string name;   // as in state_dict(): layer.weight
  std::string dtype;  // float32, ...
  std::vector<int64_t> shape;
  uint64_t bytes = 0;   // of its elements
  std::string same_as;  // name of an earlier tensor of the same elements in storage; else ""
  bool requires_grad = false;
  uint64_t elements = 0;
  // Where the elements are: in data/STORAGE, the first one `offset` elements from its beginning.
  std::string storage;
  int64_t offset = 0;
  std::vector<int64_t> strides;  // elements
};

struct ArchiveSummary {
  std::string model;                   // name of its class
  std::vector<std::string> methods;    // of the model itself, as in training_step
  std::vector<ArchiveTensor> tensors;  // in the archive's order
  // Sums over the tensors, without those that are the same as an earlier one.
  uint64_t parameter_count = 0;  // elements
  uint64_t parameter_bytes = 0, buffer_bytes = 0;
  uint64_t file_bytes = 0;
  std::string settings;  // text of adaptdl.yaml; "" without
  bool has_settings = false;

  bool has_method(const std::string& name) const;
};

// The text of the archive's adaptdl.yaml. Throws Error if the file is unreadable, is not an
// archive, or has no settings; the error says how to add them.
std::string read_settings(const std::string& path);

// All files that it was saved with (_extra_files), the settings among them, by name. Throws Error.
std::map<std::string, std::string> read_extra_files(const std::string& path);

// Throws Error for a file that is truncated, hostile, or not a TorchScript archive. Does not check
// whether the model can be trained.
ArchiveSummary inspect_archive(const std::string& path);

// The same of an archive in memory, called `name` in messages.
ArchiveSummary inspect_archive(std::span<const std::byte> bytes, const std::string& name);

}  // namespace adaptdl
