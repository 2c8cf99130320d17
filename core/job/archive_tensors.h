#pragma once

// The tensors in ZIP archives of torch.jit.save and torch.save: data.pkl describes them, data/KEY
// holds the elements of their storages. Safe for hostile files. Internal to this library.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/formats/zip.h"
#include "core/job/pickle.h"
#include "core/job/training_archive.h"

namespace adaptdl {

struct TorchArchive {
  // Throws Error for a file without data.pkl.
  TorchArchive(std::span<const std::byte> bytes, const std::string& name);

  const ZipMember* find(std::string_view name) const {
    return zip.find(folder + std::string(name));
  }
  std::string pickle() const;  // data.pkl
  [[noreturn]] void refuse(const std::string& problem) const;

  std::string path;
  uint64_t size;
  ZipReader zip;       // borrows the bytes
  std::string folder;  // "NAME/"
};

// An element type of PyTorch, by its name or by that of its storage in a pickle.
struct TorchType {
  std::string_view storage;  // "torch\nFloatStorage"
  std::string_view dtype;    // "float32"
  uint64_t bytes;
};
const TorchType* find_torch_type(std::string_view storage);
const TorchType* find_torch_dtype(std::string_view dtype);

bool is_tensor(const PickleTree& tree, const PickleValue& value);

// Its size is checked against the storage in the archive. Sets neither kind nor same_as. Throws
// Error.
ArchiveTensor read_tensor(const TorchArchive& archive, const PickleTree& tree,
                          const PickleValue& value, const std::string& name);

}  // namespace adaptdl
