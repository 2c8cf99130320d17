#pragma once

// Sums and broadcasts of device memory by NCCL, beside a Communicator of the host for all else.
//
// Every collective of NCCL begins with a small gather on the host, which compares what the members
// are about to do. So a member that is dead, has left or does something else ends the generation
// there, within the bounds of Communicator, and no GPU spins while it waits for a slow one. A
// member that dies later ends it through the host's links: then NCCL is aborted, which takes until
// the GPU has done, or dropped, what was queued there. If a member ends, and another one begins a
// next collective while a third one is still in the last one, that one throws Aborted, too.
//
// The order of summation is NCCL's. 16-bit floats are summed in f32, and averages divided after the
// sum, as on the host. Maxima and minima, for which NCCL has no rule of NaN, go through the host.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/comm/abort_signal.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/device.h"
#include "runtime/comm/nccl/library.h"

namespace adaptdl::comm::nccl {

// Of one process: makes the communicators of its generations. Used by one thread at a time.
class Connector {
 public:
  // Borrows both, which must outlive all communicators.
  Connector(const Library& library, Device& device) : library_(library), device_(device) {}

  // Before a launcher gives a newcomer up (RunOptions::connect_timeout_s).
  static constexpr double kPatience = 20;

  // A communicator that uses NCCL, over `host`, which has the same device; all of its members call
  // it, with different GPUs. If NCCL cannot connect them within `patience_s`, or has failed any of
  // them before, rank 0's log says so and `host` is returned on all members. Throws Aborted as
  // connect() does, also after `deadline`. `abort` may be null.
  std::unique_ptr<Communicator> connect(std::unique_ptr<Communicator> host,
                                        const AbortSignal* abort, TimePoint deadline,
                                        double patience_s = kPatience);

 private:
  std::string init(Communicator& host, const UniqueId& id, TimePoint until, void*& comm);

  const Library& library_;
  Device& device_;
  std::atomic<bool> failed_{false};  // for good
  bool told_ = false;
};

class NcclCommunicator final : public Communicator {
 public:
  // `comm`: connected, of `host`'s members in its order; this object aborts it. `failed`: set if
  // its first collective fails, though no member has died.
  NcclCommunicator(std::unique_ptr<Communicator> host, const Library& library, Device& device,
                   void* comm, std::atomic<bool>& failed);
  ~NcclCommunicator() override;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int hosts() const override { return host_->hosts(); }
  bool sends_16_bits() const override { return false; }  // NCCL would round each sum
  uint64_t generation() const override { return host_->generation(); }
  void all_reduce(void* data, size_t count, Type type, Op op, Memory memory) override;
  void broadcast(void* data, size_t bytes, int root, bool keep, Memory memory) override;
  void all_gather(const void* mine, size_t bytes, void* all) override;
  void barrier() override;
  void abort(const std::string& reason) noexcept override { host_->abort(reason); }
  bool aborted() const override { return host_->aborted(); }
  std::optional<TimePoint> waiting_since() const override;
  std::string describe_links() const override;
  std::vector<UsedAddress> used_addresses() const override { return host_->used_addresses(); }

 private:
  struct Shape;
  void run(const Shape& shape, const std::function<void()>& body);
  void agree(const Shape& shape);
  int state() const;
  void started(int result);
  void finish();
  [[noreturn]] void give_up();
  void check(int result);

  const std::unique_ptr<Communicator> host_;
  const Library& library_;
  Device& device_;
  std::atomic<bool>& failed_;
  bool worked_ = false;  // a collective of NCCL has ended well
  void* comm_;           // null after its end
  bool settled_ = true;  // all members are known to have left the last collective of NCCL
  std::atomic<TimePoint> begun_{TimePoint{}};  // of the running collective; default: none
};

}  // namespace adaptdl::comm::nccl
