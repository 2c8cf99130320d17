#pragma once

// Host memory for a copy of the training state, which is written while training continues.

#include <cstddef>
#include <span>
#include <vector>

namespace adaptdl {

// One block of touched memory, reused for every checkpoint: a copy costs a memcpy and no page
// faults. Not thread-safe; do not use it while the writer does.
class SnapshotBuffer {
 public:
  SnapshotBuffer() = default;
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

  // layout() and a copy of each part. The parts must not lie in this buffer.
  void copy_from(std::span<const std::span<const std::byte>> parts);

  size_t parts() const { return parts_.size(); }
  std::span<std::byte> part(size_t index);
  std::span<const std::byte> part(size_t index) const;
  size_t capacity() const { return capacity_; }  // bytes

 private:
  struct Place {
    size_t offset, size;
  };
  void release();

  std::byte* memory_ = nullptr;
  size_t capacity_ = 0;
  std::vector<Place> parts_;
};

}  // namespace adaptdl
