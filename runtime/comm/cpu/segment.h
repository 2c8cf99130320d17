#pragma once

// Memory shared by the members of one group on one host ("lanes"), with wait and wake-up.
//
// The segment is a ring of `buffers`. Each holds one slot per lane, one extra slot (for data from
// other hosts) and one result. Collectives number their chunks from 0 during the life of the group;
// chunk n uses buffer n % buffers. A lane announces each step by a counter; others wait for that
// counter.
//
// Invariants:
//  1. Only lane i writes slot(n, i), its announcement, and lane i's counters. The extra slot and
//     the announcement of the result belong to lane 0.
//  2. Counters only increase. Data are written before the counter that announces them.
//  3. slot(n + buffers, i) is written only once released(j) > n for all lanes j.
//  4. alive(i) holds the thread of lane i that called enter(), until leave(). It is on that
//     thread's robust list, so the kernel marks it as soon as the thread dies, before it frees the
//     process's memory (which can take longer than everything else here).
//  5. A waiter registers before its last check and its sleep; an announcer checks for waiters after
//     the announcement. So no wake-up is lost, and an announcement without waiters costs no system
//     call.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <linux/futex.h>
#include <string>

#include "core/base/fd.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/cpu/wire.h"

namespace adaptdl::comm {

// What a chunk belongs to; equal on all lanes, or the members have called different collectives.
struct Tag {
  uint64_t generation = 0;
  uint64_t call = 0;
  uint64_t bytes = 0;
  uint8_t kind = 0, type = 0, op = 0;
  uint32_t root = 0;
  bool operator==(const Tag&) const = default;
};

// How long to spin before sleeping. Spinning pays if the other member runs on another core and
// answers soon. It is wasted if the wait is long, and harmful if the other member needs this core.
// So the time halves after every spin in vain and doubles after every success; an occasional full
// spin detects a change of conditions. One thread at a time.
class SpinBudget {
 public:
  explicit SpinBudget(int64_t most_ns) : most_(most_ns), now_(most_ns) {}
  void begin();
  bool left();   // false, once, when the time has expired
  bool found();  // true

 private:
  static constexpr unsigned kFullEvery = 32;
  static constexpr int64_t kLeastNs = 500;
  const int64_t most_;
  int64_t now_;
  int64_t end_ = 0;
  unsigned waits_ = 0;
};

class Segment {
 public:
  // Creates the memory: a memfd sealed against resizing, or private memory if lanes is 1.
  explicit Segment(const SegmentOffer& offer);
  // Maps the memory that lane 0 created. Throws Error unless size, seals and header match `offer`.
  Segment(Fd memory, const SegmentOffer& offer);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int fd() const { return memory_.get(); }
  void close_fd() { memory_.reset(); }  // the mapping stays
  const SegmentOffer& offer() const { return offer_; }
  int lanes() const { return static_cast<int>(offer_.lanes); }
  uint64_t buffers() const { return offer_.buffers; }
  size_t chunk_bytes() const { return offer_.chunk_bytes; }

  // chunk_bytes() each, aligned to 64 bytes.
  uint8_t* slot(uint64_t chunk, int lane) { return place(chunk, lane) + kPostBytes; }
  uint8_t* extra(uint64_t chunk) { return slot(chunk, lanes()); }
  uint8_t* result(uint64_t chunk) { return slot(chunk, lanes() + 1); }

  // Announcements by `lane`, and queries for them.
  void post(uint64_t chunk, int lane, const Tag& tag);
  bool posted(uint64_t chunk, int lane) { return at(chunk, lane).number.load() >= chunk + 1; }
  const Tag& tag(uint64_t chunk, int lane) { return at(chunk, lane).tag; }
  void post_extra(uint64_t chunk) { announce(at(chunk, lanes()).number, chunk, 0); }
  bool extra_posted(uint64_t chunk) { return at(chunk, lanes()).number.load() >= chunk + 1; }
  void post_result(uint64_t chunk) { announce(at(chunk, lanes() + 1).number, chunk, 0); }
  bool result_posted(uint64_t chunk) { return at(chunk, lanes() + 1).number.load() >= chunk + 1; }
  void reduced(uint64_t chunk, int lane) { announce(state(lane).reduced, chunk, lane); }
  uint64_t reduced_count(int lane) { return state(lane).reduced.load(std::memory_order_acquire); }
  void release(uint64_t chunk, int lane) { announce(state(lane).released, chunk, lane); }
  uint64_t released_count(int lane) { return state(lane).released.load(std::memory_order_acquire); }

  // Between these two calls, made by the same thread, all waiters for `lane` detect the death of
  // this process. The thread must not use robust mutexes.
  void enter(int lane);
  void leave(int lane);
  bool died(int lane) const;

  // Returns true once ready() is true, which an announcement of `lane` must cause; false if `over`
  // is aborted, a member called abort(), or `lane` has died. Spins for a while, then sleeps.
  template <typename Ready>
  bool wait(int lane, const AbortSignal& over, SpinBudget& budget, Ready&& ready) {
    if (ready()) return true;
    budget.begin();
    do {
      for (int i = 0; i < 32; ++i) {
        pause();
        if (ready()) return budget.found();
      }
      if (ended(over) || died(lane)) return ready();
    } while (budget.left());
    Sleeper sleeper(state(lane));
    for (;;) {
      const uint32_t seen = sleeper.seen();
      if (ready()) return true;
      if (ended(over) || died(lane)) return ready();
      sleeper.sleep(seen);
    }
  }

  // Marks the generation as over for all lanes and wakes every sleeper. The first text stays.
  void abort(const std::string& text) noexcept;
  bool aborted() const;
  std::string abort_text() const;
  // Wakes the sleepers of all processes, so that they check their conditions.
  void wake_all() noexcept;

 private:
  struct alignas(64) Header;
  struct alignas(128) LaneState {
    std::atomic<uint64_t> reduced, released;
    alignas(64) std::atomic<uint32_t> bell;
    std::atomic<uint32_t> sleepers;
    std::atomic<uint32_t> alive;
  };
  struct Post {
    std::atomic<uint64_t> number;
    Tag tag;
  };
  static constexpr size_t kPostBytes = 64;
  static_assert(sizeof(Post) <= kPostBytes);

  class Sleeper {
   public:
    explicit Sleeper(LaneState& lane) : lane_(lane) { lane_.sleepers.fetch_add(1); }
    ~Sleeper() { lane_.sleepers.fetch_sub(1); }
    uint32_t seen() const { return lane_.bell.load(); }
    void sleep(uint32_t seen);

   private:
    LaneState& lane_;
  };

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  bool ended(const AbortSignal& over) const {
    return over.aborted() || aborted();
  }
  void announce(std::atomic<uint64_t>& counter, uint64_t chunk, int lane) {
    counter.store(chunk + 1);  // sequentially consistent: before the check for sleepers
    if (state(lane).sleepers.load() != 0) ring(lane);
  }
  void ring(int lane) noexcept;
  void measure();
  size_t slots_offset() const;
  void map();
  LaneState& state(int lane) {
    return states_[lane];
  }
  const LaneState& state(int lane) const {
    return states_[lane];
  }
  uint8_t* place(uint64_t chunk, int lane) {
    return slots_ + ((chunk % offer_.buffers) * (offer_.lanes + 2) + lane) * stride_;
  }
  Post& at(uint64_t chunk, int lane) {
    return *reinterpret_cast<Post*>(place(chunk, lane));
  }

  SegmentOffer offer_;
  Fd memory_;
  size_t bytes_ = 0;
  size_t stride_ = 0;
  uint8_t* base_ = nullptr;
  Header* header_ = nullptr;
  LaneState* states_ = nullptr;
  robust_list node_{};  // of the thread that has entered
  robust_list_head robust_{};
  uint8_t* slots_ = nullptr;
};

}  // namespace adaptdl::comm
