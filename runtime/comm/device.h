#pragma once

// The device of a group's Memory::device, as transports see it. Those on the CPU copy between it
// and the host; NCCL works on its buffers directly, in the order of a stream.

#include <cstddef>
#include <memory>

#include "runtime/comm/communicator.h"

namespace adaptdl::comm {

// Used by one thread at a time. Errors of the device are thrown.
class Device {
 public:
  virtual ~Device() = default;

  // At least `bytes` >= 1 of host memory that the device can copy fast to and from; valid until the
  // next call.
  virtual void* staging(size_t bytes) = 0;

  // Both return when the copy of `bytes` >= 1 is complete. Work that the calling thread's current
  // stream has runs first.
  virtual void to_host(void* host, const void* device, size_t bytes) = 0;
  virtual void to_device(void* device, const void* host, size_t bytes) = 0;

  // What follows is of `count` >= 1 elements on the device, and queued on the calling thread's
  // current stream, also the end of memory that is handed out: held until the last copy of the
  // pointer is gone.

  virtual std::shared_ptr<void> scratch(size_t bytes) = 0;
  // Copies of f16 or bf16 in f32, and back, rounded.
  virtual std::shared_ptr<void> widened(const void* data, size_t count, Type type) = 0;
  virtual void narrow(void* data, const void* wide, size_t count, Type type) = 0;
  // Divides each; integers are truncated towards zero.
  virtual void divide(void* data, size_t count, Type type, int divisor) = 0;

  // Gives memory back to the device that is kept here for later, if others find little there. For
  // any thread, also while another one computes.
  virtual void make_room() = 0;

  // The calling thread's current stream, as the device's own library names it (a cudaStream_t).
  virtual void* stream() = 0;

  // done(): whether that stream has done all that it had at the last mark().
  virtual void mark() = 0;
  virtual bool done() = 0;
};

}  // namespace adaptdl::comm
