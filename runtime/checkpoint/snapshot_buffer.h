#pragma once

// Host memory for a copy of the training state, which is written while training continues.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace adaptdl {

// One block of touched memory, reused for every checkpoint: a copy costs a memcpy and no page
// faults. Not thread-safe; do not use it while the writer does.
class SnapshotBuffer {
 public:
  // Locks memory for a device, which then copies to it several times as fast, and gives it free.
  // pin: whether it could.
  struct Pinning {
    std::function<bool(void* memory, size_t bytes)> pin;
    std::function<void(void* memory)> unpin;
  };

  SnapshotBuffer() = default;
  explicit SnapshotBuffer(Pinning pinning) : pinning_(std::move(pinning)) {}
  ~SnapshotBuffer();
  SnapshotBuffer(SnapshotBuffer&& other) noexcept;
  SnapshotBuffer& operator=(SnapshotBuffer&& other) noexcept;
  SnapshotBuffer(const SnapshotBuffer&) = delete;
  SnapshotBuffer& operator=(const SnapshotBuffer&) = delete;

  // Allocates room for `bytes` and touches it (with huge pages if available), so that the first
  // copy is as fast as later ones. Loses its contents if it grows. Throws Error if memory is
  // exhausted.
  void reserve(size_t bytes);

  // Lays out parts of these sizes, each at a multiple of 64 bytes; grows if necessary. Contents are
  // undefined until filled through part().
  void layout(std::span<const size_t> sizes);

  size_t parts() const { return parts_.size(); }
  std::span<std::byte> part(size_t index);
  std::span<const std::byte> part(size_t index) const;
  size_t capacity() const { return capacity_; }  // bytes

 private:
  struct Place {
    size_t offset, size;
  };
  void populate();
  void release();

  Pinning pinning_;
  bool pinned_ = false;
  std::byte* memory_ = nullptr;
  size_t capacity_ = 0;
  std::vector<Place> parts_;
};

}  // namespace adaptdl
