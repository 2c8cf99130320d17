#pragma once

// safetensors files (github.com/huggingface/safetensors): 8 bytes with the length of a JSON header,
// the header, then the elements of all tensors without gaps. Pure functions; safe for hostile
// files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct SafeTensor {
  std::string name;
  std::string dtype;  // "float32", ...
  std::vector<int64_t> shape;
  uint64_t offset = 0, size = 0;  // of its elements in the file, bytes; little-endian, row by row
};

// The tensors in the order of their elements. Throws Error "WHAT: ..." for anything but a whole
// file as its specification demands: no gaps, no overlaps, sizes that fit the shapes.
std::vector<SafeTensor> parse_safetensors(std::span<const std::byte> file, std::string_view what);

// The beginning of a file with these tensors, up to the elements, which follow in this order.
// `offset` is ignored; `size` must fit shape and type. Throws Error if the format does not have the
// type, or two tensors have the same name.
std::string safetensors_header(const std::vector<SafeTensor>& tensors, std::string_view what);

}  // namespace adaptdl
