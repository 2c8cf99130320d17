// Collectives on the memory of a device. The device is a mapping that only its own copies may
// touch: a transport that reads or writes it by itself dies of it.

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

#include "tests/unit/comm/group.h"

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

class HiddenMemory final : public Device {
 public:
  explicit HiddenMemory(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    ADAPTDL_CHECK(memory_ != MAP_FAILED);
  }
  ~HiddenMemory() override { munmap(memory_, bytes_); }
  void* memory() { return memory_; }

  void* staging(size_t bytes) override {
    staging_.resize(std::max(bytes, staging_.size()));
    return staging_.data();
  }
  void to_host(void* host, const void* device, size_t bytes) override { copy(host, device, bytes); }
  void to_device(void* device, const void* host, size_t bytes) override {
    copy(device, host, bytes);
  }
  std::shared_ptr<void> scratch(size_t) override { fail("not by this transport"); }
  std::shared_ptr<void> widened(const void*, size_t, Type) override {
    fail("not by this transport");
  }
  void narrow(void*, const void*, size_t, Type) override { fail("not by this transport"); }
  void divide(void*, size_t, Type, int) override { fail("not by this transport"); }
  void make_room() override { fail("not by this transport"); }
  void* stream() override { fail("not by this transport"); }
  void mark() override { fail("not by this transport"); }
  bool done() override { fail("not by this transport"); }

 private:
  void copy(void* to, const void* from, size_t bytes) {
    mprotect(memory_, bytes_, PROT_READ | PROT_WRITE);
    if (bytes > 0) std::memcpy(to, from, bytes);
    mprotect(memory_, bytes_, PROT_NONE);
  }

  const size_t bytes_;
  void* const memory_;
  std::vector<char> staging_;
};

constexpr size_t kMost = 300'000;  // elements

// Every second rank has its data on its device; all get the same.
void check_group(const std::vector<std::string>& hosts) {
  Listeners listeners(hosts);
  const int size = static_cast<int>(hosts.size());
  in_threads(size, [&](int rank) {
    HiddenMemory device(kMost * sizeof(float));
    GroupOptions options{.generation = 1,
                         .rank = rank,
                         .endpoints = listeners.endpoints,
                         .deadline = in_seconds(20),
                         .device = &device};
    const auto group = connect(*listeners.all[static_cast<size_t>(rank)], options);
    const bool on_device = rank % 2 == 0;
    const Memory where = on_device ? Memory::device : Memory::host;
    for (const size_t count : {size_t{0}, size_t{3}, kMost}) {
      const size_t bytes = count * sizeof(float);
      std::vector<float> values(count, static_cast<float>(rank + 1));
      if (on_device) device.to_device(device.memory(), values.data(), bytes);
      void* const data = on_device ? device.memory() : values.data();
      group->all_reduce(data, count, Type::f32, Op::sum, where);
      for (int root = 0; root < size; ++root) {
        // One member takes part without storing.
        const bool keep = rank != (root + 1) % size;
        if (rank == root) {
          const std::vector<float> sent(count, static_cast<float>(100 + root));
          if (on_device) {
            device.to_device(device.memory(), sent.data(), bytes);
          } else {
            values = sent;
          }
        }
        group->broadcast(keep ? data : nullptr, bytes, root, keep, where);
        if (on_device) device.to_host(values.data(), device.memory(), bytes);
        const int last = keep ? root : root - 1;
        const int total = size * (size + 1) / 2;
        const auto expected = static_cast<float>(last < 0 ? total : 100 + last);
        CHECK(values == std::vector<float>(count, expected));
      }
    }
  });
}

}  // namespace

TEST_CASE(
    "device: buffers on a device and on the host, in one group, by shared memory and by TCP") {
  check_group(one_host(3));
  check_group(many_hosts(3));
  check_group({"a", "a", "b"});
}

TEST_CASE("device: a group without a device refuses its memory") {
  with_group(one_host(2), [](Communicator& group) {
    float value = 1;
    CHECK_THROWS_AS(group.all_reduce(&value, 1, Type::f32, Op::sum, Memory::device), Error);
    CHECK(!group.aborted());
    group.barrier();
  });
}
