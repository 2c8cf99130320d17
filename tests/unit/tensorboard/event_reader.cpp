#include "tests/unit/tensorboard/event_reader.h"

#include <cstring>

namespace adaptdl {
namespace {

// Bit by bit, so that the table and the instructions of the product are not checked by themselves.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <typename T>
std::optional<T> take(std::string_view& bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

std::optional<std::string_view> take_bytes(std::string_view& bytes, uint64_t size) {
  if (bytes.size() < size) return std::nullopt;
  const auto result = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return result;
}

std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take<unsigned char>(bytes);
    if (!byte) return std::nullopt;
    value |= uint64_t(*byte & 0x7f) << shift;
    if (*byte < 0x80) return value;
  }
  return std::nullopt;
}

struct Field {
  uint64_t number = 0, value = 0;  // value of the numeric wire types
  std::string_view bytes;
};

std::optional<std::vector<Field>> fields(std::string_view message) {
  std::vector<Field> result;
  while (!message.empty()) {
    const auto key = take_varint(message);
    if (!key) return std::nullopt;
    Field field;
    field.number = *key >> 3;
    std::optional<uint64_t> value;
    switch (*key & 7) {
      case 0:
        value = take_varint(message);
        break;
      case 1:
        value = take<uint64_t>(message);
        break;
      case 5:
        value = take<uint32_t>(message);
        break;
      case 2: {
        value = take_varint(message);
        const auto bytes = value ? take_bytes(message, *value) : std::nullopt;
        if (!bytes) return std::nullopt;
        field.bytes = *bytes;
        break;
      }
      default:
        return std::nullopt;
    }
    if (!value) return std::nullopt;
    field.value = *value;
    result.push_back(field);
  }
  return result;
}

bool read_summary(std::string_view bytes, ReadEvent& event) {
  const auto values = fields(bytes);
  if (!values) return false;
  for (const auto& value : *values) {
    const auto parts = fields(value.bytes);
    if (value.number != 1 || !parts) return false;
    std::string tag;
    float number = 0;
    for (const auto& part : *parts) {
      const auto bits = static_cast<uint32_t>(part.value);
      if (part.number == 1) tag = part.bytes;
      if (part.number == 2) std::memcpy(&number, &bits, sizeof number);
    }
    event.scalars[tag] = number;
  }
  return true;
}

}  // namespace

std::optional<std::vector<ReadEvent>> read_events(std::string_view file) {
  std::vector<ReadEvent> result;
  while (!file.empty()) {
    if (file.size() < 12) return std::nullopt;
    const std::string_view header = file.substr(0, 8);
    const auto length = take<uint64_t>(file);
    if (take<uint32_t>(file) != masked_crc(header)) return std::nullopt;
    const auto payload = take_bytes(file, *length);
    if (!payload || take<uint32_t>(file) != masked_crc(*payload)) return std::nullopt;
    const auto parts = fields(*payload);
    if (!parts) return std::nullopt;
    ReadEvent event;
    for (const auto& part : *parts) {
      if (part.number == 1) std::memcpy(&event.wall_time_s, &part.value, sizeof(double));
      if (part.number == 2) event.step = static_cast<int64_t>(part.value);
      if (part.number == 3) event.version = part.bytes;
      if (part.number == 5 && !read_summary(part.bytes, event)) return std::nullopt;
    }
    result.push_back(event);
  }
  return result;
}

}  // namespace adaptdl
