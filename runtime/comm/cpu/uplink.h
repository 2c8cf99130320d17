#pragma once

// Data between hosts: TCP connections, one or several, to the first member of every other host.
// Sends are queued and proceed whenever this object waits, so two hosts that send to each other at
// the same time do not block each other.
//
// A block goes by the connection that will have sent it first, by what is left there and how fast
// that has become less: each carries as much as it can.
// Blocks are matched by order: the receiver asks for exactly the block that the sender queued next,
// whose header has the next number, by whichever connection it comes. It compares the header (kind,
// generation, collective, index, length) before it takes data.
// A host may come to a collective long after the others, so a link lives as long as the kernel at
// its other end answers. If that is silent, the link ends, also if others still work.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/net/stream.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/cpu/link.h"
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
  // `streams`: by host, none for this host; `over` is borrowed. `silence`: of a link, at most.
  Uplink(uint64_t generation, std::vector<std::vector<Stream>> streams, const AbortSignal& over,
         std::chrono::milliseconds silence = kSilence);

  // Queues a block; `data` must not change until flush(the returned ticket).
  uint64_t send(int host, BlockKind kind, uint64_t call, uint64_t index, const void* data,
                size_t bytes);
  void receive(int host, BlockKind kind, uint64_t call, uint64_t index, void* data, size_t bytes);
  // Waits until the kernel has taken everything up to that ticket.
  void flush(uint64_t ticket);
  void flush_all() { flush(last_ticket_); }

  struct Use {
    double bytes = 0;
    double busy_s = 0;
  };
  // As LinkUse. Nothing if the kernel does not tell (of what is not TCP, or before Linux 4.9). Any
  // thread, also beside one that waits.
  Use use(int host) const;

 private:
  struct Outgoing {
    std::string header;
    const char* data;
    size_t bytes;
    size_t sent = 0;  // of header and data together
    uint64_t ticket;
    size_t left() const { return header.size() + bytes - sent; }
  };
  struct Link {
    Stream stream;
    size_t host;
    std::deque<Outgoing> queue;
    uint8_t header[kBlockHeaderBytes] = {};  // of the next block that comes, as far as it has come
    size_t header_bytes = 0;
    std::optional<BlockHeader> block;  // whose data come next
    bool ended = false;                // between two blocks
    int error = 0;                     // the system's, of a closed stream; 0 = the peer has left
    // What the peer had not taken when last looked at, with what was queued then; and how fast that
    // became less while there was any.
    size_t left = 0;
    TimePoint looked_at{}, queued_at{};
    double taken_bytes = 0, taken_s = 0;
    double bytes_per_s() const { return taken_s > 0 ? taken_bytes / taken_s : 0; }

    IoState recv(std::span<std::byte> to, size_t& got);  // of the stream; keeps the error
  };
  struct Peer {
    std::vector<Link> links;
    uint64_t sent = 0, received = 0;  // blocks
  };

  static void look_at(Link& link);
  static Link& first_to_send(Peer& peer, size_t bytes);
  void push(Link& link);  // sends what can be sent now
  void push_all();
  void look_for_silence();  // once in a while
  // For room in any queue's socket, or for data of one of `reading`; false at the deadline.
  bool wait(std::span<const Link* const> reading, TimePoint deadline = TimePoint::max());
  void read_header(Link& link);
  Link& next_block(Peer& peer);  // waits for it
  void fill(Link& link, std::span<std::byte> data);
  [[noreturn]] void closed(const Link& link) const;

  const uint64_t generation_;
  std::vector<Peer> peers_;  // by host
  const AbortSignal& over_;
  const std::chrono::milliseconds silence_;
  uint64_t last_ticket_ = 0;
  TimePoint next_look_{};  // for silence
};

}  // namespace adaptdl::comm
