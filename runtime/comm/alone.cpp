// A group of one.

#include <cstring>

#include "runtime/comm/abort_signal.h"
#include "runtime/comm/communicator.h"

namespace adaptdl::comm {
namespace {

class Alone final : public Communicator {
 public:
  explicit Alone(uint64_t generation) : generation_(generation) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int hosts() const override { return 1; }
  uint64_t generation() const override { return generation_; }

  void all_reduce(void*, size_t, Type, Op, Memory) override { check(); }
  void broadcast(void*, size_t, int root, bool, Memory) override {
    check();
    if (root != 0) fail("broadcast: no rank {} in a group of 1", root);
  }
  void all_gather(const void* mine, size_t bytes, void* all) override {
    check();
    if (bytes > 0 && mine != all) std::memcpy(all, mine, bytes);
  }
  void barrier() override { check(); }
  void abort(const std::string& reason) noexcept override { over_.abort(reason); }
  bool aborted() const override { return over_.aborted(); }
  std::optional<TimePoint> waiting_since() const override { return std::nullopt; }
  std::string describe_links() const override { return {}; }

 private:
  void check() const {
    if (over_.aborted()) throw Aborted(over_.reason());
  }

  const uint64_t generation_;
  AbortSignal over_;
};

}  // namespace

std::unique_ptr<Communicator> alone(uint64_t generation) {
  return std::make_unique<Alone>(generation);
}

}  // namespace adaptdl::comm
