#pragma once

// Collectives among the members of one group in one generation.
//
// A Communicator belongs to exactly one generation of the membership. When a member dies or the
// membership changes, it is aborted or destroyed and a new one is connected (connect.h). It is an
// interface to allow other transports (NCCL); nothing here is specific to CPUs or to one host.
// Buffers may be in device memory: the caller says where, and the transport uses them directly or
// stages them on the host.

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

// Location of a buffer: host memory, or the memory of the group's device (GroupOptions). It may
// differ between members.
enum class Memory : uint8_t { host, device };

// The generation is over: a member died or left, or a member called abort(). what() is the reason.
// A collective that throws it leaves its data undefined; every later collective of this
// Communicator throws it too. Recover by connecting the next generation.
class Aborted : public Error {
 public:
  explicit Aborted(const std::string& reason) : Error(reason) {}
};

// Of a host, by which replicas of another one are connected to it.
struct UsedAddress {
  std::string host;     // its name
  std::string address;  // numeric
  std::string interface;
};

// What the kernel has measured of the connections to another host since they exist.
struct LinkUse {
  int rank = 0;      // the host's lowest
  double bytes = 0;  // that the other host has taken
  // While the other host had room, and had not acknowledged something; of several connections the
  // mean.
  double busy_s = 0;
};

// One generation of one group.
//
// Threads: one thread at a time calls collectives. All members call the same ones in the same order
// with the same sizes, types and roots; a detected difference aborts the generation with an
// explanation. Any thread may call abort(), aborted() and the other const functions at any time
// until destruction begins.
// Blocking: a collective returns when this member's part is done, or throws Aborted.
// Destruction: a member may destroy it while others are still in the last collective that it took
// part in (they finish it); a member that starts another one gets Aborted.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;             // 0 .. size() - 1
  virtual int size() const = 0;             // >= 1
  virtual int hosts() const = 0;            // that its members are on, 1 .. size()
  virtual uint64_t generation() const = 0;  // as given to connect()
  // Whether 16-bit floats travel as such between hosts. They are summed in f32 anyway.
  virtual bool sends_16_bits() const { return true; }

  // Reduces `count` elements at `data`, element by element over all ranks, in place.
  // The order of summation is fixed (rank 0 first; with several hosts: see connect.h; on GPUs that
  // NCCL joins it is NCCL's, and all members' `memory` must be the same), and all
  // ranks get bitwise the same result. 16-bit floats are summed in f32 and rounded once; large
  // messages between hosts once per host and once more. Integers wrap around. `data` needs only the
  // alignment of its type. count may be 0.
  virtual void all_reduce(void* data, size_t count, Type type, Op op,
                          Memory memory = Memory::host) = 0;

  // Copies root's `bytes` at `data` to all ranks. A rank with keep = false takes part without
  // storing anything (survivors that do not need a state transfer): its `data` is not touched and
  // may be null. The root ignores keep.
  virtual void broadcast(void* data, size_t bytes, int root, bool keep = true,
                         Memory memory = Memory::host) = 0;

  // Every rank gives `bytes` at `mine`; `all` receives size() * bytes in order of rank.
  // `mine` may be its own slot within `all`; otherwise they must not overlap.
  virtual void all_gather(const void* mine, size_t bytes, void* all) = 0;

  // Returns once every rank has called it.
  virtual void barrier() = 0;

  // Ends this generation: collectives waiting here throw Aborted with `reason` within 100 ms (of
  // device memory: once the device is free), those of other members soon after. The first reason
  // wins. Any thread; does not block for long; safe to call twice.
  virtual void abort(const std::string& reason) noexcept = 0;

  // True once the generation is over (by abort(), here or elsewhere, or by a death).
  virtual bool aborted() const = 0;

  // Start time of the collective that runs here; nothing if none runs.
  virtual std::optional<TimePoint> waiting_since() const = 0;

  // One line per peer, for logs: its rank and how it is reached, e.g.
  // "rank 2: tcp 10.0.0.1:41234 -> 10.0.0.2:5555 via eth0".
  virtual std::string describe_links() const = 0;

  // The addresses that connections from this member to other hosts use, of both their ends.
  virtual std::vector<UsedAddress> used_addresses() const { return {}; }

  // By other host; at the lowest rank of each host, else nothing.
  virtual std::vector<LinkUse> link_use() const { return {}; }

 protected:
  Communicator() = default;
};

// The communicator of a group of one: every collective is a local no-op or copy. abort() works as
// usual.
std::unique_ptr<Communicator> alone(uint64_t generation = 0);

// The values of all members in rank order; T is plain data without pointers.
template <typename T>
std::vector<T> all_gather_values(Communicator& communicator, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&mine, sizeof(T), all.data());
  return all;
}

}  // namespace adaptdl::comm
