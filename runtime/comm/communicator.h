#pragma once

// Collectives among the members of one group in one generation.
//
// A Communicator belongs to exactly one generation of the membership: when a member dies or the
// membership changes, it is aborted or dropped and a new one is connected (connect.h). It is an
// interface so that another transport (NCCL) can take its place; nothing here is specific to CPUs
// or to a host. Buffers may lie in a device's memory: whoever calls says where, and the transport
// takes them as they are or stages them on the host.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace adaptdl::comm {

// The element types that can be summed. f16 is IEEE binary16, bf16 the upper half of binary32.
enum class Type : uint8_t { f32, f64, f16, bf16, i64, i32, u8 };

// Bytes of one element.
size_t size_of(Type type);

// average: the sum divided by the number of ranks (integers: truncated towards zero).
// max, min: a NaN anywhere makes the result NaN.
enum class Op : uint8_t { sum, average, max, min };

// Where a buffer lies: in the host's memory, or in that of the device which the group was connected
// with (GroupOptions). Members need not agree on it.
enum class Memory : uint8_t { host, device };

// The generation is over: a member died or left, or somebody called abort(). what() is the reason.
// The data of a collective that throws it are undefined; every later collective of this
// Communicator throws it as well. Recover by connecting the next generation.
class Aborted : public Error {
 public:
  explicit Aborted(const std::string& reason) : Error(reason) {}
};

// One generation of one group.
//
// Threads: one thread at a time calls collectives, and all members call the same ones in the same
// order with the same sizes, types and roots; a difference that can be seen aborts the generation
// with a sentence that says so. abort(), aborted() and the other const functions may be called
// from any thread at any time until destruction begins.
// Blocking: a collective returns when this member's part is done, or throws Aborted.
// Destruction: may be done by one member while others are still inside the last collective that
// it took part in (they finish it); a member that starts one more gets Aborted.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;             // 0 .. size() - 1
  virtual int size() const = 0;             // >= 1
  virtual uint64_t generation() const = 0;  // as given to connect()

  // Reduces `count` elements at `data`, element by element over all ranks, in place.
  // The order of summation is fixed (rank 0 first; with several hosts: see connect.h),
  // and all ranks get bitwise the same result. 16-bit floats are
  // summed in f32 and rounded once per host. Integers wrap around. `data` need not be aligned
  // beyond its type. count may be 0.
  virtual void all_reduce(void* data, size_t count, Type type, Op op,
                          Memory memory = Memory::host) = 0;

  // Copies root's `bytes` at `data` to all ranks. A rank with keep = false takes part without
  // storing anything: its `data` is not touched and may be null (survivors of a state transfer
  // that they do not need). keep is ignored at the root.
  virtual void broadcast(void* data, size_t bytes, int root, bool keep = true,
                         Memory memory = Memory::host) = 0;

  // Every rank gives `bytes` at `mine`; `all` receives size() * bytes in order of rank.
  // `mine` may lie at its own place within `all`; otherwise they must not overlap.
  virtual void all_gather(const void* mine, size_t bytes, void* all) = 0;

  // Returns once every rank has called it.
  virtual void barrier() = 0;

  // Ends this generation: collectives that wait here return within 100 ms (Aborted with
  // `reason`), and the other members' soon after. The first reason wins. Any thread; never blocks
  // for long; safe to call twice.
  virtual void abort(const std::string& reason) noexcept = 0;

  // True once the generation is over (by abort(), here or elsewhere, or by a death).
  virtual bool aborted() const = 0;

  // When the collective under way here began; nothing while there is none.
  virtual std::optional<TimePoint> waiting_since() const = 0;

  // One line per peer, for logs: its rank and how it is reached, e.g.
  // "rank 2: tcp 10.0.0.1:41234 -> 10.0.0.2:5555 via eth0".
  virtual std::string describe_links() const = 0;

 protected:
  Communicator() = default;
};

// The communicator of a group of one: every collective is a local no-op or copy, abort() works as
// in the others.
std::unique_ptr<Communicator> alone(uint64_t generation = 0);

// Everybody's value in order of rank; T is plain data without pointers.
template <typename T>
std::vector<T> all_gather_values(Communicator& communicator, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&mine, sizeof(T), all.data());
  return all;
}

}  // namespace adaptdl::comm
