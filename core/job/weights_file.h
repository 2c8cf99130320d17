#pragma once

// The weights in a file: of a model.pt (or train.pt), of a dictionary that torch.save wrote, or of
// a safetensors file. Read without LibTorch and without running anything; safe for hostile files.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"

namespace adaptdl {

struct StoredTensor {
  std::string name;   // as in state_dict(): layer.weight
  std::string dtype;  // "float32", ...
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;      // of the elements in `bytes`
  std::span<const std::byte> bytes;  // from its first element to the end of its last
  uint64_t element_bytes = 0;
  std::string same_as;  // name of an earlier tensor with the same elements; else ""
  bool frozen = false;  // a parameter of a model that does not train it

  bool contiguous() const;
  uint64_t size() const;  // of all its elements, bytes
};

struct WeightsFile {
  std::string path;
  std::vector<StoredTensor> tensors;  // borrow the file's bytes
  std::shared_ptr<const MappedFile> file;
};

// Parameters and buffers of a model, or every tensor of another file. Throws Error.
WeightsFile open_weights(const std::string& path);
// The same of a file in memory, called `name` in messages.
std::vector<StoredTensor> read_weights(std::span<const std::byte> bytes, const std::string& name);

// Strides, in elements, of a tensor whose elements lie row by row without gaps.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);

// The elements row by row, without gaps.
std::string dense_bytes(const StoredTensor& tensor);

}  // namespace adaptdl
