#include "core/tensorboard/event_file.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/crc32c.h"

namespace adaptdl {
namespace {

constexpr size_t kMostBuffered = 64u << 10;

void put_fixed(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Protocol buffer wire types.
enum Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_key(std::string& out, unsigned field, Wire wire) {
  put_varint(out, field << 3 | wire);
}

void put_bytes(std::string& out, unsigned field, std::string_view value) {
  put_key(out, field, bytes);
  put_varint(out, value.size());
  out.append(value);
}

// Field numbers of event.proto and summary.proto.
namespace event {
enum : unsigned { wall_time = 1, step = 2, file_version = 3, summary = 5 };
}
namespace summary {
enum : unsigned { value = 1, tag = 1, simple_value = 2 };
}

std::string event_at(double wall_time_s) {
  std::string out;
  put_key(out, event::wall_time, fixed64);
  put_fixed(out, std::bit_cast<uint64_t>(wall_time_s), 8);
  return out;
}

// Keeps only the characters that are safe in a file name.
std::string harmless(const std::string& host) {
  std::string result;
  for (const char c : host) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_';
    result.push_back(plain ? c : '_');
  }
  return result.empty() ? "localhost" : result.substr(0, 64);
}

}  // namespace

std::string tfrecord(std::string_view payload) {
  std::string out;
  put_fixed(out, payload.size(), 8);
  put_fixed(out, masked_crc32c(crc32c(out)), 4);
  out.append(payload);
  put_fixed(out, masked_crc32c(crc32c(payload)), 4);
  return out;
}

std::string encode_version_event(double wall_time_s) {
  std::string out = event_at(wall_time_s);
  put_bytes(out, event::file_version, "brain.Event:2");
  return out;
}

std::string encode_scalars_event(double wall_time_s, int64_t step,
                                 std::span<const Scalar> scalars) {
  std::string values;
  for (const auto& scalar : scalars) {
    std::string value;
    put_bytes(value, summary::tag, scalar.tag);
    put_key(value, summary::simple_value, fixed32);
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)), 4);
    put_bytes(values, summary::value, value);
  }
  std::string out = event_at(wall_time_s);
  put_key(out, event::step, varint);
  put_varint(out, static_cast<uint64_t>(step));
  put_bytes(out, event::summary, values);
  return out;
}

EventFile::EventFile(const std::string& folder, double wall_time_s, const std::string& host) {
  make_directories(folder);
  const std::string base =
      join_path(folder, fmt::format("events.out.tfevents.{:010d}.{}",
                                    static_cast<int64_t>(wall_time_s), harmless(host)));
  constexpr int kMostNames = 1000;
  for (int i = 0; !file_; ++i) {
    path_ = i == 0 ? base : fmt::format("{}.{}", base, i);
    file_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_ && (errno != EEXIST || i == kMostNames)) {
      fail_errno(errno, path_ + ": cannot create the TensorBoard event file");
    }
  }
  append(encode_version_event(wall_time_s));
  flush();
}

EventFile::~EventFile() {
  flush();
}

void EventFile::add(double wall_time_s, int64_t step, std::span<const Scalar> scalars) {
  append(encode_scalars_event(wall_time_s, step, scalars));
  if (buffer_.size() >= kMostBuffered) flush();
}

void EventFile::append(const std::string& payload) {
  buffer_ += tfrecord(payload);
  ++buffered_;
}

void EventFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(file_.get(), buffer_.data() + done, buffer_.size() - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      break;
    }
  }
  if (done == buffer_.size()) {
    written_ += static_cast<int64_t>(done);
  } else {
    error_ = fmt::format("{}: {}", path_, std::strerror(errno));
    dropped_ += buffered_;
    // A reader stops for ever at a broken record.
    if (::ftruncate(file_.get(), written_) == 0) ::lseek(file_.get(), written_, SEEK_SET);
  }
  buffer_.clear();
  buffered_ = 0;
}

}  // namespace adaptdl
