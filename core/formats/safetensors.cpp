#include "core/formats/safetensors.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/formats/json.h"

namespace adaptdl {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 32u << 20;  // 200,000 tensors
constexpr size_t kMaxDimensions = 64;
constexpr const char* kMetadata = "__metadata__";

struct ElementType {
  std::string_view code, name;
  uint64_t bytes;
};
constexpr ElementType kTypes[] = {
    {"F32", "float32", 4},
    {"F64", "float64", 8},
    {"F16", "float16", 2},
    {"BF16", "bfloat16", 2},
    {"I64", "int64", 8},
    {"I32", "int32", 4},
    {"I16", "int16", 2},
    {"I8", "int8", 1},
    {"U8", "uint8", 1},
    {"BOOL", "bool", 1},
    {"U16", "uint16", 2},
    {"U32", "uint32", 4},
    {"U64", "uint64", 8},
    {"C64", "complex64", 8},
    {"F8_E4M3", "float8_e4m3", 1},
    {"F8_E5M2", "float8_e5m2", 1},
    {"F8_E8M0", "float8_e8m0", 1},
};

const ElementType* find_type(std::string_view ElementType::*key, std::string_view value) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const ElementType& type) { return type.*key == value; });
  return found == std::end(kTypes) ? nullptr : found;
}

// Bytes of so many elements; nothing if they are more than 2^64.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, uint64_t element) {
  uint64_t bytes = element;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, std::string_view what) : file_(file), what_(what) {}

  std::vector<SafeTensor> run() {
    const uint64_t length = header_length();
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes, length);
    if (!text.starts_with('{')) refuse("its header is not a JSON object");
    const Json header = parse_json(text, fmt::format("{}: header", what_),
                                   {.max_bytes = kMaxHeader, .max_depth = 4});
    elements_ = kLengthBytes + length;
    std::vector<SafeTensor> tensors;
    for (const auto& [name, value] : header.items()) {
      if (name != kMetadata) tensors.push_back(tensor(name, value));
    }
    std::stable_sort(tensors.begin(), tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
      return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
    });
    check_layout(tensors);
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail("{}: not a valid safetensors file: {}", what_, problem);
  }

  uint64_t header_length() const {
    if (file_.size() < kLengthBytes) refuse("it is too short");
    uint64_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) {
      length |= uint64_t{static_cast<uint8_t>(file_[i])} << (8 * i);
    }
    if (length > kMaxHeader || length > file_.size() - kLengthBytes) {
      refuse(fmt::format("its header would have {} bytes, the file has {}", length, file_.size()));
    }
    return length;
  }

  SafeTensor tensor(const std::string& name, const Json& value) const {
    const std::string where = fmt::format("{}: tensor {}", what_, name);
    SafeTensor tensor;
    tensor.name = name;
    const auto code = json_get<std::string>(value, "dtype", where);
    const ElementType* type = find_type(&ElementType::code, code);
    if (type == nullptr) fail("{}: has the type {}, which this adaptdl does not know", where, code);
    tensor.dtype = type->name;
    tensor.shape = json_get<std::vector<int64_t>>(value, "shape", where);
    const auto ends = json_get<std::vector<uint64_t>>(value, "data_offsets", where);
    const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(),
                                      [](int64_t size) { return size < 0; });
    if (negative || tensor.shape.size() > kMaxDimensions) {
      refuse(fmt::format("the tensor {} has an impossible shape", name));
    }
    if (ends.size() != 2 || ends[0] > ends[1] || ends[1] > file_.size() - elements_) {
      refuse(fmt::format("the elements of the tensor {} are not in the file", name));
    }
    tensor.offset = elements_ + ends[0];
    tensor.size = ends[1] - ends[0];
    if (bytes_of(tensor.shape, type->bytes) != tensor.size) {
      refuse(fmt::format("the tensor {} has {} bytes, which does not fit its shape and type", name,
                         tensor.size));
    }
    return tensor;
  }

  void check_layout(const std::vector<SafeTensor>& tensors) const {
    uint64_t at = elements_;
    for (const SafeTensor& tensor : tensors) {
      if (tensor.offset != at) {
        refuse(fmt::format("there is a gap or an overlap before the tensor {}", tensor.name));
      }
      at += tensor.size;
    }
    if (at != file_.size()) refuse(fmt::format("{} bytes follow its tensors", file_.size() - at));
  }

  const std::span<const std::byte> file_;
  const std::string_view what_;
  uint64_t elements_ = 0;  // where they begin
};

}  // namespace

std::vector<SafeTensor> parse_safetensors(std::span<const std::byte> file, std::string_view what) {
  return HeaderReader(file, what).run();
}

std::string safetensors_header(const std::vector<SafeTensor>& tensors, std::string_view what) {
  Json header = Json::object();
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    const ElementType* type = find_type(&ElementType::name, tensor.dtype);
    if (type == nullptr) {
      fail("{}: safetensors has no type for {}, which is {}", what, tensor.name, tensor.dtype);
    }
    ADAPTDL_CHECK(bytes_of(tensor.shape, type->bytes) == tensor.size);
    if (tensor.name == kMetadata || !names.insert(tensor.name).second) {
      fail("{}: safetensors cannot hold a tensor named {}, or two of one name", what, tensor.name);
    }
    header[tensor.name] = {
        {"dtype", type->code}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.size}}};
    at += tensor.size;
  }
  header[kMetadata] = {{"format", "pt"}};  // some readers require it
  std::string text = dump_json(header);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  }
  return length + text;
}

}  // namespace adaptdl
