#pragma once

// An NCCL of this process, whose devices are ordinary memory, and which fails as a script says. One
// test at a time uses it.

#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
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
  // Of the collective that all have come to, but that this device has yet to receive: how often it
  // is still asked. It needs the peers' NCCL until then.
  std::atomic<int> receiving{0};
  std::atomic<bool> cut_off{false};
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
  std::shared_ptr<void> scratch(size_t bytes) override {
    return std::shared_ptr<char[]>(new char[bytes]);
  }
  // The upper half of an f32 is a bf16.
  std::shared_ptr<void> widened(const void* data, size_t count, Type type) override {
    ADAPTDL_CHECK(type == Type::bf16);
    std::shared_ptr<float[]> wide(new float[count]);
    for (size_t i = 0; i < count; ++i) {
      wide[i] = std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16);
    }
    return wide;
  }
  // These are queued, too: what NCCL does comes first.
  void narrow(void* data, const void* wide, size_t count, Type type) override {
    ADAPTDL_CHECK(type == Type::bf16);
    later_.emplace_back([=] {
      for (size_t i = 0; i < count; ++i) {
        const float value = static_cast<const float*>(wide)[i];
        static_cast<uint16_t*>(data)[i] =
            static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      }
    });
  }
  void divide(void* data, size_t count, Type type, int divisor) override {
    ADAPTDL_CHECK(type == Type::f32);
    later_.emplace_back([=] {
      for (size_t i = 0; i < count; ++i) {
        static_cast<float*>(data)[i] /= static_cast<float>(divisor);
      }
    });
  }
  void make_room() override { ++rooms; }
  void* stream() override { return &stream_; }
  void mark() override { marked_ = stream_.given; }
  bool done() override {
    if (broken) throw Error("the device has fallen off the bus");
    if (stream_.cut_off) throw Error("a peer's NCCL has ended too early");
    if (stream_.receiving > 0 && --stream_.receiving == 0) ++stream_.done;
    if (stream_.done < marked_) return false;
    for (const auto& each : later_) each();
    later_.clear();
    return true;
  }

  int staged = 0, rooms = 0;
  std::atomic<bool> broken{false};

 private:
  ScriptedStream stream_;
  uint64_t marked_ = 0;
  std::vector<char> staging_;
  std::vector<std::function<void()>> later_;
};

// The script, and what has been counted.
struct ScriptedNccl {
  std::atomic<int> slow_init{0};     // how often its state is asked before it is connected
  std::atomic<int> fails_init{-1};   // the rank
  std::atomic<int> never_inits{-1};  // the rank that is not counted as having come
  std::atomic<bool> hangs{false};    // collectives never end
  std::atomic<int> error_at{-1};     // the rank to which collectives tell an error later
  std::atomic<bool> connects_alone{false};
  std::atomic<bool> starts_slowly{false};  // collectives begin by "in progress"
  std::atomic<int> made{0}, aborted{0}, calls{0};

  static ScriptedNccl& get() {
    static ScriptedNccl all;
    return all;
  }
  void reset() {
    slow_init = 0;
    fails_init = never_inits = error_at = -1;
    hangs = starts_slowly = connects_alone = false;
    made = aborted = calls = 0;
  }
  static const nccl::Library& library();
};

}  // namespace adaptdl::comm::testing
