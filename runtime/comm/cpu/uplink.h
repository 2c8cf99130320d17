#pragma once

// Data between hosts: one TCP connection to the first member of every other host. Sends are queued
// and proceed whenever this object waits, so two hosts that send to each other at the same time do
// not block each other.
//
// Blocks are matched by order: the receiver asks for exactly the block that the sender queued
// next. It compares the header (kind, generation, collective, index, length) before it takes data.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/net/stream.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/cpu/wire.h"

namespace adaptdl::comm {

// The stream to another host is closed.
class LinkClosed : public Error {
 public:
  using Error::Error;
};

// One thread at a time. Functions that wait throw Aborted if `over` is aborted, LinkClosed if a
// stream is closed, Error if a block is not the expected one.
class Uplink {
 public:
  // `streams`: by host, empty for this host; `over` is borrowed.
  Uplink(uint64_t generation, std::vector<Stream> streams, const AbortSignal& over);

  // Queues a block; `data` must not change until flush(the returned ticket).
  uint64_t send(int host, BlockKind kind, uint64_t call, uint64_t index, const void* data,
                size_t bytes);
  void receive(int host, BlockKind kind, uint64_t call, uint64_t index, void* data, size_t bytes);
  // Waits until the kernel has taken everything up to that ticket.
  void flush(uint64_t ticket);
  void flush_all() { flush(last_ticket_); }

 private:
  struct Outgoing {
    std::string header;
    const char* data;
    size_t bytes;
    size_t sent = 0;  // of header and data together
    uint64_t ticket;
  };
  struct Link {
    Stream stream;
    std::deque<Outgoing> queue;
  };

  void push(Link& link);             // sends what can be sent now
  void wait(const Link* receiving);  // for room in any queue's socket, or for data
  void fill(Link& link, std::span<std::byte> data);
  [[noreturn]] void closed(const Link& link) const;

  const uint64_t generation_;
  std::vector<Link> links_;
  const AbortSignal& over_;
  uint64_t last_ticket_ = 0;
};

}  // namespace adaptdl::comm
