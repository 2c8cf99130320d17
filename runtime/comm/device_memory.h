#pragma once

// Copies between device and host memory, for transports on the CPU. A transport that uses device
// buffers directly (NCCL) does not need it.

#include <cstddef>

namespace adaptdl::comm {

// Used by one thread at a time, for sizes of at least one byte. Errors of the device are thrown.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // At least `bytes` of host memory that the device can copy fast to and from; valid until the next
  // call.
  virtual void* staging(size_t bytes) = 0;

  // Both return when the copy is complete. Work queued on the device before runs first.
  virtual void to_host(void* host, const void* device, size_t bytes) = 0;
  virtual void to_device(void* device, const void* host, size_t bytes) = 0;
};

}  // namespace adaptdl::comm
