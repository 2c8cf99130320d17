#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <poll.h>
#include <thread>
#include <utility>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/base/log.h"

namespace adaptdl::comm::nccl {
namespace {

// A member that does not store takes part with this much memory of its device at most.
constexpr size_t kBroadcastBytes = 64 << 20;

// How long to ask without a pause, and the pause after that: a fraction of what a collective of a
// bucket takes.
constexpr std::chrono::microseconds kSpin{200}, kPause{50};

constexpr int kSum = 0;  // ncclRedOp_t

// ncclDataType_t.
int number_of(Type type) {
  switch (type) {
    case Type::f32:
      return 7;
    case Type::f64:
      return 8;
    case Type::f16:
      return 6;
    case Type::bf16:
      return 9;
    case Type::i64:
      return 4;
    case Type::i32:
      return 2;
    case Type::u8:
      return 1;
  }
  fail("no such type");
}

std::string problem_of(const Library& library, int result, void* comm) {
  const char* text = library.error_text(result);
  const char* detail = library.last_error(comm);
  const std::string last = detail == nullptr ? "" : detail;
  return fmt::format("{}{}{}", text == nullptr ? "unknown error" : text, last.empty() ? "" : ": ",
                     last);
}

// Asks `done` until it says yes.
template <typename Done>
void ask_until(const Done& done) {
  const TimePoint begun = Monotonic::now();
  while (!done()) {
    if (Monotonic::now() - begun < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

// Aborts a communicator when a signal comes or, with the reason `late`, a time is over, while this
// exists.
class Watch {
 public:
  Watch(Communicator& host, const AbortSignal* signal, TimePoint deadline, const char* late)
      : thread_([=, this, &host] { run(host, signal, deadline, late); }) {}
  ~Watch() {
    end_.cancel();
    thread_.join();
  }

 private:
  void run(Communicator& host, const AbortSignal* signal, TimePoint deadline, const char* late) {
    while (!end_.cancelled()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Monotonic::now());
      if (left.count() <= 0) return host.abort(late);
      if (signal != nullptr && signal->aborted()) return host.abort(signal->reason());
      pollfd waits[] = {{end_.fd(), POLLIN, 0}, {signal ? signal->fd() : -1, POLLIN, 0}};
      poll(waits, 2, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    }
  }

  Cancellation end_;
  std::thread thread_;
};

// From each member to all.
struct Invitation {
  bool refused = false;  // NCCL has failed it before
  UniqueId id{};         // rank 0's
};

// Of the gather before the end. No other one has this size, so that one does not pass for it.
struct Farewell {
  char bytes[29] = {};
};
constexpr Seconds kFarewell{5};

// How long an error of NCCL waits for the host's links to tell of a death.
constexpr Seconds kReason{0.5};

// Before the deadline, for the gather that tells all members what came of it.
constexpr Seconds kMargin{5};

constexpr const char* kLate = "not all members have answered in time";

// What kept any of the members, each of which tells "" or its own problem. The others of one that
// fails only notice that it does not come.
std::string problem_of_all(Communicator& host, const std::string& mine) {
  std::array<char, 256> text{};
  mine.copy(text.data(), text.size() - 1);
  std::string found;
  for (const auto& each : all_gather_values(host, text)) {
    const std::string problem = each.data();
    if (found.empty() || found == kLate) found = problem.empty() ? found : problem;
  }
  return found;
}

}  // namespace

std::unique_ptr<Communicator> Connector::connect(std::unique_ptr<Communicator> host,
                                                 const AbortSignal* abort, TimePoint deadline,
                                                 double patience_s) {
  const Watch watch(*host, abort, deadline, "the members did not connect by NCCL in time");
  std::string problem;
  Invitation mine{.refused = failed_};
  if (host->rank() == 0 && !mine.refused) {
    const int result = library_.get_unique_id(&mine.id);
    if (result != kSuccess) problem = problem_of(library_, result, nullptr);
    mine.refused = result != kSuccess;
  }
  const auto invitations = all_gather_values(*host, mine);
  if (std::ranges::none_of(invitations, &Invitation::refused)) {
    void* comm = nullptr;
    const TimePoint until =
        std::min(time_after(deadline, -kMargin), time_after(Monotonic::now(), Seconds(patience_s)));
    problem = init(*host, invitations[0].id, until, comm);
    try {
      problem = problem_of_all(*host, problem);
    } catch (const Aborted&) {
      if (comm != nullptr) library_.abort(comm);
      throw;
    }
    if (problem.empty()) {
      return std::make_unique<NcclCommunicator>(std::move(host), library_, device_, comm, failed_);
    }
    // Only now: its end may wait for those of the others.
    if (comm != nullptr) library_.abort(comm);
  } else if (problem.empty()) {
    problem = "it has failed before";
  }
  if (!std::exchange(told_, true) && host->rank() == 0) {
    log_warning(
        "NCCL cannot connect the replicas ({}); from now on what is on their GPUs goes through "
        "host memory, which is slower. NCCL_DEBUG=INFO tells more, --no-nccl does without",
        problem);
  }
  failed_ = true;
  return host;
}

// "": connected, as `comm`. Else why not.
std::string Connector::init(Communicator& host, const UniqueId& id, TimePoint until, void*& comm) {
  device_.make_room();  // NCCL has memory of its own
  // Else it would wait for the other members where nothing can end it.
  Config config;
  config.blocking = 0;
  int result = library_.init(&comm, host.size(), id, host.rank(), &config);
  std::string problem;
  ask_until([&] {
    if (result == kInProgress && comm != nullptr) {
      const int asked = library_.get_async_error(comm, &result);
      if (asked != kSuccess) result = asked;
    }
    if (result != kInProgress || host.aborted()) return true;
    if (Monotonic::now() < until) return false;
    problem = kLate;
    return true;
  });
  if (!problem.empty() || result == kSuccess) return problem;
  return host.aborted() ? "the generation is over" : problem_of(library_, result, comm);
}

struct NcclCommunicator::Shape {
  uint64_t bytes = 0;
  int32_t what = 0;  // 0: all_reduce, 1: broadcast
  int32_t type = 0;
  int32_t op = 0;
  int32_t root = 0;
  bool operator==(const Shape&) const = default;
};

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host, const Library& library,
                                   Device& device, void* comm, std::atomic<bool>& failed)
    : host_(std::move(host)), library_(library), device_(device), failed_(failed), comm_(comm) {}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  try {
    // NCCL's threads may still be sending what this member has finished.
    if (!settled_) {
      const Watch watch(*host_, nullptr, time_after(Monotonic::now(), kFarewell),
                        "a member has ended, and others did not finish in time");
      all_gather_values(*host_, Farewell{});
    }
  } catch (const std::exception&) {  // the generation is over
  }
  // Its other end needs all members to come to it.
  library_.abort(comm_);
}

void NcclCommunicator::all_reduce(void* data, size_t count, Type type, Op op, Memory memory) {
  if (memory == Memory::host || op == Op::max || op == Op::min) {
    host_->all_reduce(data, count, type, op, memory);
    settled_ = true;
    return;
  }
  const Shape shape{.bytes = count * size_of(type),
                    .what = 0,
                    .type = static_cast<int32_t>(type),
                    .op = static_cast<int32_t>(op)};
  run(shape, [&] {
    const bool narrow = type == Type::f16 || type == Type::bf16;
    const auto wide = narrow ? device_.widened(data, count, type) : nullptr;
    void* const values = narrow ? wide.get() : data;
    const Type summed = narrow ? Type::f32 : type;
    started(library_.all_reduce(values, values, count, number_of(summed), kSum, comm_,
                                device_.stream()));
    if (op == Op::average) device_.divide(values, count, summed, size());
    if (narrow) device_.narrow(data, values, count, type);
    finish();
  });
}

void NcclCommunicator::broadcast(void* data, size_t bytes, int root, bool keep, Memory memory) {
  if (memory == Memory::host) {
    host_->broadcast(data, bytes, root, keep, memory);
    return;
  }
  if (root < 0 || root >= size()) fail("broadcast: no rank {} in a group of {}", root, size());
  const bool stores = keep || rank() == root;
  for (size_t done = 0; done < std::max<size_t>(bytes, 1); done += kBroadcastBytes) {
    const size_t part = std::min(bytes - done, kBroadcastBytes);
    run({.bytes = part, .what = 1, .root = root}, [&] {
      const auto unwanted = stores ? nullptr : device_.scratch(part);
      void* const at = stores ? static_cast<char*>(data) + done : unwanted.get();
      started(library_.broadcast(at, at, part, number_of(Type::u8), root, comm_, device_.stream()));
      finish();
    });
  }
}

void NcclCommunicator::all_gather(const void* mine, size_t bytes, void* all) {
  host_->all_gather(mine, bytes, all);
  settled_ = true;
}

void NcclCommunicator::barrier() {
  host_->barrier();
  settled_ = true;
}

std::optional<TimePoint> NcclCommunicator::waiting_since() const {
  const TimePoint begun = begun_.load();
  return begun == TimePoint{} ? host_->waiting_since() : std::optional(begun);
}

std::string NcclCommunicator::describe_links() const {
  return fmt::format("{}\ndevice memory: NCCL {}", host_->describe_links(),
                     version_text(library_.version));
}

void NcclCommunicator::run(const Shape& shape, const std::function<void()>& body) {
  ADAPTDL_CHECK(begun_.exchange(Monotonic::now()) == TimePoint{});  // one thread at a time
  struct Done {
    std::atomic<TimePoint>& begun;
    ~Done() { begun.store(TimePoint{}); }
  } done{begun_};
  agree(shape);
  if (shape.bytes == 0) return;
  settled_ = false;
  try {
    body();
    worked_ = true;
  } catch (const Aborted&) {
    throw;
  } catch (const std::exception& error) {  // of the device
    host_->abort(error.what());
    throw;
  }
}

void NcclCommunicator::agree(const Shape& shape) {
  const auto all = all_gather_values(*host_, shape);
  settled_ = true;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == shape) continue;
    host_->abort(fmt::format(
        "generation {}: the collectives of ranks {} and {} differ: {} of {} bytes and {} of {}",
        generation(), this->rank(), rank, shape.what == 0 ? "all_reduce" : "broadcast", shape.bytes,
        all[rank].what == 0 ? "all_reduce" : "broadcast", all[rank].bytes));
    give_up();
  }
  // Another member may have seen the difference.
  if (host_->aborted() || comm_ == nullptr) give_up();
}

int NcclCommunicator::state() const {
  int now = kSuccess;
  const int answer = library_.get_async_error(comm_, &now);
  return answer == kSuccess ? now : answer;
}

// Until the device has been given what NCCL has begun with `result`.
void NcclCommunicator::started(int result) {
  ask_until([&] {
    if (host_->aborted()) give_up();
    if (result == kInProgress) result = state();
    return result != kInProgress;
  });
  check(result);
}

// Until the device has done what it has been given.
void NcclCommunicator::finish() {
  device_.mark();
  int asks = 0;
  ask_until([&] {
    if (device_.done()) return true;
    if (host_->aborted()) give_up();
    // Errors of the network come this way, and are rare; to ask costs as much as the rest.
    if (++asks % 64 == 0) {
      const int now = state();
      if (now != kInProgress) check(now);
    }
    return false;
  });
}

void NcclCommunicator::check(int result) {
  if (result == kSuccess) return;
  // Of a death the host's links tell the better reason.
  const TimePoint until = time_after(Monotonic::now(), kReason);
  ask_until([&] { return host_->aborted() || Monotonic::now() >= until; });
  if (!host_->aborted() && !worked_) failed_ = true;
  host_->abort(fmt::format("generation {}: NCCL on rank {}: {}", generation(), rank(),
                           problem_of(library_, result, comm_)));
  give_up();
}

// The generation is over: frees the device of what waits there, and throws Aborted.
void NcclCommunicator::give_up() {
  if (comm_ != nullptr) library_.abort(std::exchange(comm_, nullptr));
  host_->barrier();  // throws it, with the reason
  fail("a collective of a generation that is over has returned");
}

}  // namespace adaptdl::comm::nccl
