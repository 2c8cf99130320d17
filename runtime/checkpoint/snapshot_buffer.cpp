#include "runtime/checkpoint/snapshot_buffer.h"

#include <cerrno>
#include <sys/mman.h>
#include <utility>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;

size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

SnapshotBuffer::~SnapshotBuffer() {
  release();
}

SnapshotBuffer::SnapshotBuffer(SnapshotBuffer&& other) noexcept
    : pinning_(std::move(other.pinning_)),
      pinned_(std::exchange(other.pinned_, false)),
      memory_(std::exchange(other.memory_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      parts_(std::exchange(other.parts_, {})) {}

SnapshotBuffer& SnapshotBuffer::operator=(SnapshotBuffer&& other) noexcept {
  if (this != &other) {
    release();
    pinning_ = std::move(other.pinning_);
    pinned_ = std::exchange(other.pinned_, false);
    memory_ = std::exchange(other.memory_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    parts_ = std::exchange(other.parts_, {});
  }
  return *this;
}

void SnapshotBuffer::release() {
  if (std::exchange(pinned_, false)) pinning_.unpin(memory_);
  if (memory_ != nullptr) ::munmap(memory_, capacity_);
  memory_ = nullptr;
  capacity_ = 0;
}

void SnapshotBuffer::reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  ADAPTDL_CHECK(bytes <= (size_t{1} << 50));
  parts_.clear();
  release();
  const size_t wanted = round_up(bytes, kHugePage);
  void* memory =
      ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_errno(errno, fmt::format("cannot allocate {} bytes for a snapshot", bytes));
  }
  memory_ = static_cast<std::byte*>(memory);
  capacity_ = wanted;
  populate();
  pinned_ = pinning_.pin && pinning_.pin(memory_, capacity_);
}

void SnapshotBuffer::populate() {
  ::madvise(memory_, capacity_, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory_, capacity_, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (size_t at = 0; at < capacity_; at += kPage) memory_[at] = std::byte{0};
}

void SnapshotBuffer::layout(std::span<const size_t> sizes) {
  std::vector<Place> places;
  size_t offset = 0;
  for (const size_t size : sizes) {
    places.push_back({offset, size});
    offset += round_up(size, kAlignment);
  }
  reserve(offset);
  parts_ = std::move(places);
}

std::span<std::byte> SnapshotBuffer::part(size_t index) {
  ADAPTDL_CHECK(index < parts_.size());
  return {memory_ + parts_[index].offset, parts_[index].size};
}

std::span<const std::byte> SnapshotBuffer::part(size_t index) const {
  ADAPTDL_CHECK(index < parts_.size());
  return {memory_ + parts_[index].offset, parts_[index].size};
}

}  // namespace adaptdl
