#pragma once

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/device.h"

namespace adaptdl::comm {

// A collective's buffer in host memory: the buffer itself, or a host copy of a buffer in device
// memory.
class Staged {
 public:
  Staged(Device* device, void* data, size_t bytes, Memory memory)
      : device_(memory == Memory::device && bytes > 0 ? device : nullptr),
        data_(data),
        bytes_(bytes) {
    if (memory == Memory::device && !device) fail("this group was connected without a device");
    if (device_) host_ = device_->staging(bytes);
  }

  void* data() const { return device_ ? host_ : data_; }
  void take() const {  // before the collective
    if (device_) device_->to_host(host_, data_, bytes_);
  }
  void put() const {  // after it
    if (device_) device_->to_device(data_, host_, bytes_);
  }

 private:
  Device* const device_;
  void* const data_;
  const size_t bytes_;
  void* host_ = nullptr;
};

}  // namespace adaptdl::comm
