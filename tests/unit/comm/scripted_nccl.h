#pragma once

// An NCCL of this process, whose devices are ordinary memory, and which fails as a script says. One
// test at a time uses it.

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/device.h"
#include "runtime/comm/nccl/library.h"

namespace adaptdl::comm::testing {

// What a device's only stream has been given and has done.
struct ScriptedStream {
  std::atomic<uint64_t> given{0}, done{0};
};

class ScriptedDevice final : public Device {
 public:
  void* staging(size_t bytes) override {
    ++staged;
    staging_.resize(bytes);
    return staging_.data();
  }
  void to_host(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void to_device(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void* scratch(size_t bytes) override {
    scratch_.resize(bytes);
    return scratch_.data();
  }
  void* stream() override { return &stream_; }
  void mark() override { marked_ = stream_.given; }
  bool done() override {
    if (broken) throw Error("the device has fallen off the bus");
    return stream_.done >= marked_;
  }

  int staged = 0;
  std::atomic<bool> broken{false};

 private:
  ScriptedStream stream_;
  uint64_t marked_ = 0;
  std::vector<char> staging_, scratch_;
};

// The script, and what has been counted.
struct ScriptedNccl {
  std::atomic<int> slow_init{0};           // how often its state is asked before it is connected
  std::atomic<int> fails_init{-1};         // the rank
  std::atomic<int> never_inits{-1};        // the rank that is not counted as having come
  std::atomic<bool> hangs{false};          // collectives never end
  std::atomic<int> error_at{-1};           // the rank to which collectives tell an error later
  std::atomic<bool> starts_slowly{false};  // collectives begin by "in progress"
  std::atomic<int> made{0}, aborted{0}, calls{0};

  static ScriptedNccl& get() {
    static ScriptedNccl all;
    return all;
  }
  void reset() {
    slow_init = 0;
    fails_init = never_inits = error_at = -1;
    hangs = starts_slowly = false;
    made = aborted = calls = 0;
  }
  static const nccl::Library& library();
};

}  // namespace adaptdl::comm::testing
