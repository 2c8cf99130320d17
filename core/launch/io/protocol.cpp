#include "core/launch/io/protocol.h"

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/formats/json_brackets.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kHeader = 4;

void check_depth(std::string_view text) {
  int depth = 0;
  for_each_bracket(
      text,
      [&](size_t) {
        if (++depth <= kMaxFrameDepth) return;
        fail("control channel: a message of {} bytes is nested more than {} deep", text.size(),
             kMaxFrameDepth);
      },
      [&](size_t) { --depth; });
}

std::string frame_of(const nlohmann::json& message) {
  std::string frame(kHeader, '\0');
  // Text from a user's program may be invalid UTF-8: replace it by U+FFFD instead of failing.
  frame += message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const size_t size = frame.size() - kHeader;
  if (size > kMaxFrame) {
    fail("control message of {} bytes is larger than the {} allowed", size, kMaxFrame);
  }
  check_depth(std::string_view(frame).substr(kHeader));
  for (size_t i = 0; i < kHeader; ++i) frame[i] = static_cast<char>(size >> (8 * i) & 0xff);
  return frame;
}

}  // namespace

Channel::Channel(Fd socket, uint32_t longest) : Channel(Stream(std::move(socket)), longest) {}

Channel::Channel(Stream stream, uint32_t longest) : stream_(std::move(stream)), longest_(longest) {}

bool Channel::send(const nlohmann::json& message) {
  pending_ += frame_of(message);
  while (flush()) {
    if (!wants_write()) return true;
    wait_ready(fd(), POLLOUT);
  }
  return false;
}

bool Channel::post(const nlohmann::json& message) {
  pending_ += frame_of(message);
  if (!flush()) return false;
  if (pending_.size() <= kMaxPending) return true;
  ::shutdown(fd(), SHUT_RDWR);
  return false;
}

bool Channel::flush() {
  size_t written = 0;
  IoState state = IoState::done;
  while (written < pending_.size() && state == IoState::done) {
    size_t moved = 0;
    state = stream_.send(std::string_view(pending_).substr(written), moved);
    written += moved;
  }
  if (state == IoState::closed) written = pending_.size();  // nobody will read the rest
  pending_.erase(0, written);
  return state != IoState::closed;
}

Channel::Fill Channel::fill() {
  std::byte chunk[64 << 10];
  size_t got = 0;
  switch (stream_.recv(chunk, got)) {
    case IoState::done:
      buffer_.append(reinterpret_cast<const char*>(chunk), got);
      return Fill::more;
    case IoState::later:
      return Fill::open;
    case IoState::closed:
      break;
  }
  return Fill::closed;
}

std::optional<nlohmann::json> Channel::next() {
  const size_t available = buffer_.size() - consumed_;
  if (available < kHeader) {
    buffer_.erase(0, std::exchange(consumed_, 0));
    return std::nullopt;
  }
  uint32_t size = 0;
  for (size_t i = 0; i < kHeader; ++i) {
    size |= uint32_t{static_cast<unsigned char>(buffer_[consumed_ + i])} << (8 * i);
  }
  if (size > longest_) {
    fail("control channel: a message of {} bytes was announced, {} are allowed", size, longest_);
  }
  if (available - kHeader < size) {
    buffer_.erase(0, std::exchange(consumed_, 0));
    return std::nullopt;
  }
  const std::string_view text(buffer_.data() + consumed_ + kHeader, size);
  check_depth(text);
  auto message = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  consumed_ += kHeader + size;
  if (!message.is_object() || !message.contains("type") || !message["type"].is_string()) {
    fail("control channel: a message of {} bytes is not a JSON object with a type", size);
  }
  return message;
}

std::optional<nlohmann::json> Channel::receive(std::optional<TimePoint> deadline) {
  for (;;) {
    if (auto message = next()) return message;
    switch (fill()) {
      case Fill::more:
        break;
      case Fill::open:
        if (!wait_ready(fd(), POLLIN, deadline)) return std::nullopt;
        break;
      case Fill::closed:
        return std::nullopt;
    }
  }
}

}  // namespace adaptdl::launch
