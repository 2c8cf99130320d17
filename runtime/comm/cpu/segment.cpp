#include "runtime/comm/cpu/segment.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace adaptdl::comm {
namespace {

constexpr uint64_t kMagic = 0x31676573636c6461;  // "adlcseg1"
constexpr size_t kTextBytes = 512;
constexpr uint32_t kWriting = 1, kWritten = 2;  // of the abort text

constexpr uint32_t kMaxLanes = 1024;
constexpr uint32_t kMaxBuffers = 4096;
constexpr uint32_t kLargestChunk = 16u << 20;

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Shared (not private) futexes: the sleepers are in other processes.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr,
                 0);
}

// No member can remove pages that another one uses (SIGBUS).
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Room for the header, before the lane states.
constexpr size_t kStatesOffset = 1024;

size_t round_up(size_t value, size_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

struct alignas(64) Segment::Header {
  uint64_t magic;
  uint64_t generation;
  uint32_t lanes, buffers, chunk_bytes;
  alignas(64) std::atomic<uint32_t> abort_state;
  char abort_text[kTextBytes];
};

Segment::Segment(const SegmentOffer& offer) : offer_(offer) {
  measure();
  if (offer.lanes > 1) {
    memory_ = Fd(memfd_create("adaptdl-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory_) fail_errno(errno, "cannot create shared memory (memfd_create)");
    if (ftruncate(memory_.get(), static_cast<off_t>(bytes_)) != 0) {
      fail_errno(errno, fmt::format("cannot allocate {} bytes of shared memory", bytes_));
    }
    if (fcntl(memory_.get(), F_ADD_SEALS, kSeals) != 0) {
      fail_errno(errno, "cannot seal shared memory");
    }
  }
  map();
  new (header_) Header{};
  header_->magic = kMagic;
  header_->generation = offer_.generation;
  header_->lanes = offer_.lanes;
  header_->buffers = offer_.buffers;
  header_->chunk_bytes = offer_.chunk_bytes;
}

Segment::Segment(Fd memory, const SegmentOffer& offer) : offer_(offer), memory_(std::move(memory)) {
  measure();
  struct stat status {};
  if (fstat(memory_.get(), &status) != 0) fail_errno(errno, "cannot stat shared memory");
  const int seals = fcntl(memory_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || static_cast<size_t>(status.st_size) != bytes_) {
    fail("shared memory of generation {}: {} bytes, seals {}; expected {} bytes, sealed",
         offer_.generation, static_cast<int64_t>(status.st_size), seals, bytes_);
  }
  map();
  if (header_->magic != kMagic || header_->generation != offer_.generation ||
      header_->lanes != offer_.lanes || header_->buffers != offer_.buffers ||
      header_->chunk_bytes != offer_.chunk_bytes) {
    munmap(base_, bytes_);
    fail("shared memory of generation {}: its header belongs to another group", offer_.generation);
  }
}

void Segment::measure() {
  if (offer_.lanes < 1 || offer_.lanes > kMaxLanes || offer_.buffers < 2 ||
      offer_.buffers > kMaxBuffers || offer_.chunk_bytes < 4096 ||
      offer_.chunk_bytes > kLargestChunk || offer_.chunk_bytes % 64 != 0) {
    fail("shared memory of generation {}: invalid sizes ({} lanes, {} buffers of {} bytes)",
         offer_.generation, offer_.lanes, offer_.buffers, offer_.chunk_bytes);
  }
  stride_ = kPostBytes + offer_.chunk_bytes;
  bytes_ = round_up(slots_offset() + stride_ * (offer_.lanes + 2) * offer_.buffers, 4096);
}

size_t Segment::slots_offset() const {
  return round_up(kStatesOffset + offer_.lanes * sizeof(LaneState), 4096);
}

void Segment::map() {
  // Allocates the pages here, in connect(), instead of in the first collectives.
  const int flags = (memory_ ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_POPULATE;
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, memory_.get(), 0);
  if (mapped == MAP_FAILED) {
    fail_errno(errno, fmt::format("cannot map {} bytes of shared memory", bytes_));
  }
  base_ = static_cast<uint8_t*>(mapped);
  header_ = reinterpret_cast<Header*>(base_);
  states_ = reinterpret_cast<LaneState*>(base_ + kStatesOffset);
  slots_ = base_ + slots_offset();
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

void Segment::post(uint64_t chunk, int lane, const Tag& tag) {
  Post& post = at(chunk, lane);
  post.tag = tag;
  announce(post.number, chunk, lane);
}

void SpinBudget::begin() {
  end_ = now_ns() + (++waits_ % kFullEvery == 0 ? most_ : now_);
}

bool SpinBudget::left() {
  if (now_ns() < end_) return true;
  now_ = std::max(now_ / 2, std::min(kLeastNs, most_));
  return false;
}

bool SpinBudget::found() {
  now_ = std::min(now_ * 2, most_);
  return true;
}

void Segment::Sleeper::sleep(uint32_t seen) {
  // The time limit is only a safeguard; no wake-up is lost (invariant 5).
  constexpr int64_t kLimitNs = 50'000'000;
  const uint32_t alive = lane_.alive.load();
  if ((alive & FUTEX_OWNER_DIED) != 0) return;
  const int64_t end = now_ns() + kLimitNs;
  const timespec until{end / 1'000'000'000, end % 1'000'000'000};
  futex_waitv both[2] = {};
  both[0] = {seen, reinterpret_cast<uint64_t>(&lane_.bell), FUTEX_32, 0};
  both[1] = {alive, reinterpret_cast<uint64_t>(&lane_.alive), FUTEX_32, 0};
  const long woken = syscall(SYS_futex_waitv, both, alive == 0 ? 1 : 2, 0, &until, CLOCK_MONOTONIC);
  if (woken < 0 && (errno == ENOSYS || errno == EPERM)) {  // before Linux 5.16, or denied
    const timespec limit{0, kLimitNs / 10};
    futex(lane_.bell, FUTEX_WAIT, seen, &limit);
  }
}

void Segment::enter(int lane) {
  std::atomic<uint32_t>& alive = state(lane).alive;
  robust_.list.next = &node_;
  node_.next = &robust_.list;
  robust_.futex_offset = reinterpret_cast<intptr_t>(&alive) - reinterpret_cast<intptr_t>(&node_);
  robust_.list_op_pending = nullptr;
  alive.store(static_cast<uint32_t>(gettid()) | FUTEX_WAITERS);
  // If this fails (some sandboxes deny it), the closed control link reports a death, but later.
  syscall(SYS_set_robust_list, &robust_, sizeof robust_);
}

void Segment::leave(int lane) {
  robust_.list.next = &robust_.list;
  state(lane).alive.store(0);
}

bool Segment::died(int lane) const {
  return (state(lane).alive.load(std::memory_order_relaxed) & FUTEX_OWNER_DIED) != 0;
}

void Segment::ring(int lane) noexcept {
  state(lane).bell.fetch_add(1);
  futex(state(lane).bell, FUTEX_WAKE, INT_MAX, nullptr);
}

void Segment::wake_all() noexcept {
  for (int lane = 0; lane < lanes(); ++lane) ring(lane);
}

void Segment::abort(const std::string& text) noexcept {
  uint32_t none = 0;
  if (header_->abort_state.compare_exchange_strong(none, kWriting)) {
    const size_t length = std::min(text.size(), kTextBytes - 1);
    std::memcpy(header_->abort_text, text.data(), length);
    header_->abort_text[length] = '\0';
    header_->abort_state.store(kWritten);
  }
  wake_all();
}

bool Segment::aborted() const {
  return header_->abort_state.load(std::memory_order_acquire) != 0;
}

std::string Segment::abort_text() const {
  // The text follows a moment later, or never if that member was killed in between.
  for (int i = 0; i < 100 && header_->abort_state.load() != kWritten; ++i) usleep(100);
  if (header_->abort_state.load() != kWritten) return "another member ended the generation";
  return {header_->abort_text, strnlen(header_->abort_text, kTextBytes)};
}

}  // namespace adaptdl::comm
