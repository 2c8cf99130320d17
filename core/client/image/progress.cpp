#include "core/client/image/progress.h"

#include <unistd.h>

#include "core/base/number.h"
#include "core/base/system.h"

namespace adaptdl::client {
namespace {

constexpr double kEvery = 0.1;  // seconds

void draw(const std::string& text) {
  const std::string all = "\r\x1b[K" + text;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, all.data(), all.size());
}

}  // namespace

ImageProgress::ImageProgress(bool hidden) : shown_(!hidden && wants_color(STDERR_FILENO)) {}

void ImageProgress::update(const oci::BlobProgress& blob) {
  using State = oci::BlobProgress::State;
  const bool moves = blob.state == State::sending || blob.state == State::receiving;
  if (!moves) return;
  const char* const what = blob.state == State::sending ? "sending " : "receiving ";
  update(what + blob.digest.substr(0, 19), blob.bytes, blob.size);
}

void ImageProgress::update(const std::string& what, uint64_t bytes, uint64_t size) {
  if (!shown_ || seconds_since(last_) < kEvery) return;
  last_ = Monotonic::now();
  drawn_ = true;
  draw(fmt::format("{}: {} of {}", what, format_bytes(bytes), format_bytes(size)));
}

void ImageProgress::end() {
  if (drawn_) draw("");
  drawn_ = false;
}

}  // namespace adaptdl::client
