#include "runtime/comm/cpu/cpu_communicator.h"

#include <chrono>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/system.h"
#include "runtime/comm/cpu/staged.h"

namespace adaptdl::comm {
namespace {

// The longest time that a lane spins before it sleeps: several times the cost of a wake-up. With
// fewer cores than lanes, spinning would keep the awaited lane from running.
constexpr int64_t kSpinNs = 50'000;
constexpr int64_t kCrowdedSpinNs = 5'000;

int64_t spin_ns(int lanes) {
  return lanes <= available_cores() ? kSpinNs : kCrowdedSpinNs;
}

// After a data link closes, how long to wait for the reason on the control link.
constexpr auto kReasonDelay = std::chrono::milliseconds(500);

}  // namespace

CpuCommunicator::CpuCommunicator(Layout layout, std::unique_ptr<Segment> segment,
                                 std::vector<Stream> control, std::vector<std::vector<Stream>> data,
                                 Links links, Device* device)
    : layout_(std::move(layout)),
      links_(std::move(links)),
      device_(device),
      segment_(std::move(segment)),
      local_(*segment_, layout_.hosts[static_cast<size_t>(layout_.host)], layout_.lane, over_,
             spin_ns(layout_.lanes())),
      uplink_(layout_.generation, std::move(data), over_),
      mixed_(layout_, local_, uplink_),
      control_(layout_.generation, std::move(control)) {
  segment_->close_fd();
  ControlLinks::Events events;
  events.aborted = [this](int rank, const std::string& reason) {
    abort(fmt::format("{} (from rank {})", reason, rank));
  };
  events.left = [this](int rank, uint64_t calls) { on_left(rank, calls); };
  events.lost = [this](int rank) {
    abort(fmt::format("generation {}: rank {} is gone", generation(), rank));
  };
  events.started = [this] { segment_->enter(layout_.lane); };
  events.stopping = [this] { segment_->leave(layout_.lane); };
  control_.start(std::move(events));
}

CpuCommunicator::~CpuCommunicator() {
  if (!over_.aborted()) {
    control_.tell_all({ControlKind::leave, generation(), call_.load(), {}});
  }
}

void CpuCommunicator::on_left(int rank, uint64_t calls) {
  uint64_t until = everybody_until_.load();
  while (calls < until && !everybody_until_.compare_exchange_weak(until, calls)) {
  }
  // Either this sees the collective that has started, or that one sees everybody_until_.
  if (call_.load() > calls) {
    abort(fmt::format("generation {}: rank {} has left the group", generation(), rank));
  }
}

void CpuCommunicator::abort(const std::string& reason) noexcept {
  if (!over_.abort(reason)) return;
  segment_->abort(reason);
  control_.tell_all({ControlKind::abort, generation(), call_.load(), reason});
}

std::vector<LinkUse> CpuCommunicator::link_use() const {
  std::vector<LinkUse> all;
  if (layout_.lane != 0) return all;  // the uplink has no hosts
  for (int host = 0; host < layout_.host_count(); ++host) {
    if (host == layout_.host) continue;
    const Uplink::Use use = uplink_.use(host);
    const int rank = layout_.hosts[static_cast<size_t>(host)].front();
    all.push_back({.rank = rank, .bytes = use.bytes, .busy_s = use.busy_s});
  }
  return all;
}

std::optional<TimePoint> CpuCommunicator::waiting_since() const {
  const TimePoint begun = begun_.load();
  return begun == TimePoint{} ? std::nullopt : std::optional(begun);
}

template <typename Body>
void CpuCommunicator::collective(const Tag& shape, Body&& body) {
  ADAPTDL_CHECK(begun_.exchange(Monotonic::now()) == TimePoint{});  // one thread at a time
  struct Done {
    std::atomic<TimePoint>& begun;
    ~Done() { begun.store(TimePoint{}); }
  } done{begun_};
  Tag tag = shape;
  tag.generation = generation();
  tag.call = call_.load() + 1;
  try {
    if (over_.aborted()) throw Aborted(over_.reason());
    if (segment_->aborted()) throw Aborted(segment_->abort_text());
    call_.store(tag.call);
    if (everybody_until_.load() < tag.call) {
      throw Aborted(fmt::format("generation {}: a member has left the group", generation()));
    }
    mixed_.begin(tag);
    body();
    return;
  } catch (const LinkClosed& e) {
    const TimePoint end = Monotonic::now() + kReasonDelay;
    while (!over_.aborted() && Monotonic::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    abort(e.what());
  } catch (const std::exception& e) {
    abort(e.what());
  }
  throw Aborted(over_.reason());
}

void CpuCommunicator::all_reduce(void* data, size_t count, Type type, Op op, Memory memory) {
  const Tag shape{.bytes = count * size_of(type),
                  .kind = static_cast<uint8_t>(Kind::all_reduce),
                  .type = static_cast<uint8_t>(type),
                  .op = static_cast<uint8_t>(op)};
  const Staged staged(device_, data, shape.bytes, memory);
  staged.take();
  collective(shape, [&] {
    if (one_host()) {
      local_.all_reduce(staged.data(), count, type, op, op == Op::average ? size() : 1);
    } else {
      mixed_.all_reduce(staged.data(), count, type, op);
    }
  });
  staged.put();
}

void CpuCommunicator::broadcast(void* data, size_t bytes, int root, bool keep, Memory memory) {
  if (root < 0 || root >= size()) fail("broadcast: no rank {} in a group of {}", root, size());
  const Tag shape{.bytes = bytes,
                  .kind = static_cast<uint8_t>(Kind::broadcast),
                  .root = static_cast<uint32_t>(root)};
  const bool stores = keep && rank() != root;
  const Staged staged(device_, data, bytes, stores || rank() == root ? memory : Memory::host);
  if (rank() == root) staged.take();
  collective(shape, [&] {
    if (one_host()) {
      local_.broadcast(staged.data(), bytes, root, keep);
    } else {
      mixed_.broadcast(staged.data(), bytes, root, keep);
    }
  });
  if (stores) staged.put();
}

void CpuCommunicator::all_gather(const void* mine, size_t bytes, void* all) {
  const Tag shape{.bytes = bytes, .kind = static_cast<uint8_t>(Kind::all_gather)};
  collective(shape, [&] {
    if (one_host()) {
      local_.all_gather(mine, bytes, all);
    } else {
      mixed_.all_gather(mine, bytes, all);
    }
  });
}

void CpuCommunicator::barrier() {
  collective({.kind = static_cast<uint8_t>(Kind::barrier)}, [&] {
    if (one_host()) {
      local_.barrier();
    } else {
      mixed_.barrier();
    }
  });
}

}  // namespace adaptdl::comm
