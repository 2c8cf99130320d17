#pragma once

// Host memory that a training state is copied to, so that it can be written while training goes on.

#include <cstddef>
#include <span>
#include <vector>

namespace adaptdl {

// One stretch of touched memory, used again for every checkpoint: copying to it costs a memcpy and
// no page faults. Not thread-safe; give it to the writer and take it back when it is done.
class SnapshotBuffer {
 public:
  SnapshotBuffer() = default;
  ~SnapshotBuffer();
  SnapshotBuffer(SnapshotBuffer&& other) noexcept;
  SnapshotBuffer& operator=(SnapshotBuffer&& other) noexcept;
  SnapshotBuffer(const SnapshotBuffer&) = delete;
  SnapshotBuffer& operator=(const SnapshotBuffer&) = delete;

  // Makes room for `bytes` and touches it (huge pages where the system has them), so that the first
  // copy is as fast as later ones. Contents are lost when it has to grow. Throws Error when there
  // is no memory.
  void reserve(size_t bytes);

  // Lays out parts of these sizes, each at a multiple of 64 bytes; grows if it must. Contents are
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
