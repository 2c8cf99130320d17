#pragma once

// The Communicator that runs on the CPU: shared memory within a host, TCP between hosts. Buffers in
// device memory are copied to the host and back. Created by connect().

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/cpu/control.h"
#include "runtime/comm/cpu/host_group.h"
#include "runtime/comm/cpu/mixed_group.h"
#include "runtime/comm/cpu/segment.h"
#include "runtime/comm/cpu/uplink.h"
#include "runtime/comm/device.h"

namespace adaptdl::comm {

class CpuCommunicator final : public Communicator {
 public:
  struct Links {
    std::string described;
    std::vector<UsedAddress> used;
  };
  // `control`: sockets by rank; `data`: by host, at lane 0 only; `links`: for describe_links() and
  // used_addresses(); `device`: borrowed, may be null.
  CpuCommunicator(Layout layout, std::unique_ptr<Segment> segment, std::vector<Stream> control,
                  std::vector<std::vector<Stream>> data, Links links, Device* device);
  ~CpuCommunicator() override;

  int rank() const override { return layout_.rank; }
  int size() const override { return layout_.size; }
  int hosts() const override { return static_cast<int>(layout_.hosts.size()); }
  uint64_t generation() const override { return layout_.generation; }
  void all_reduce(void* data, size_t count, Type type, Op op, Memory memory) override;
  void broadcast(void* data, size_t bytes, int root, bool keep, Memory memory) override;
  void all_gather(const void* mine, size_t bytes, void* all) override;
  void barrier() override;
  void abort(const std::string& reason) noexcept override;
  bool aborted() const override { return over_.aborted() || segment_->aborted(); }
  std::optional<TimePoint> waiting_since() const override;
  std::string describe_links() const override { return links_.described; }
  std::vector<UsedAddress> used_addresses() const override { return links_.used; }
  std::vector<LinkUse> link_use() const override;

 private:
  enum class Kind : uint8_t { all_reduce = 1, broadcast, all_gather, barrier };
  // Runs one collective; any failure ends the generation.
  template <typename Body>
  void collective(const Tag& shape, Body&& body);
  bool one_host() const { return layout_.host_count() == 1; }
  void on_left(int rank, uint64_t calls);

  const Layout layout_;
  const Links links_;
  Device* const device_;
  const std::unique_ptr<Segment> segment_;
  AbortSignal over_;  // aborted when the generation is over
  HostGroup local_;
  Uplink uplink_;
  MixedGroup mixed_;
  std::atomic<TimePoint> begun_{TimePoint{}};          // of the running collective; default: none
  std::atomic<uint64_t> call_{0};                      // the latest collective started
  std::atomic<uint64_t> everybody_until_{UINT64_MAX};  // the last that no member left before
  ControlLinks control_;                               // declared last: its thread uses the others
};

}  // namespace adaptdl::comm
