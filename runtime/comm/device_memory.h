#pragma once

// The memory of a device, as transports on the CPU need it: copied to the host and back. One that
// takes device buffers as they are (NCCL) does without.

#include <cstddef>

namespace adaptdl::comm {

// Used by one thread at a time, for one byte or more. What fails on the device is thrown.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // At least `bytes` in the host's memory that the device copies from and to at its best; valid
  // until the next call.
  virtual void* staging(size_t bytes) = 0;

  // Both return when the bytes are there. What was queued on the device before is done first.
  virtual void to_host(void* host, const void* device, size_t bytes) = 0;
  virtual void to_device(void* device, const void* host, size_t bytes) = 0;
};

}  // namespace adaptdl::comm
