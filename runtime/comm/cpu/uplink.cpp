#include "runtime/comm/cpu/uplink.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace adaptdl::comm {

Uplink::Uplink(uint64_t generation, std::vector<Fd> sockets, const AbortSignal& over)
    : generation_(generation), over_(over) {
  for (Fd& socket : sockets) streams_.push_back({std::move(socket), {}});
}

void Uplink::closed(const Stream& stream) const {
  throw LinkClosed(fmt::format("generation {}: the data link to host {} closed", generation_,
                               &stream - streams_.data()));
}

uint64_t Uplink::send(int host, BlockKind kind, uint64_t call, uint64_t index, const void* data,
                      size_t bytes) {
  Stream& stream = streams_[static_cast<size_t>(host)];
  stream.queue.push_back({encode(BlockHeader{kind, generation_, call, index, bytes}),
                          static_cast<const uint8_t*>(data), bytes, 0, ++last_ticket_});
  push(stream);
  return last_ticket_;
}

void Uplink::push(Stream& stream) {
  while (!stream.queue.empty()) {
    Outgoing& item = stream.queue.front();
    iovec parts[2];
    int count = 0;
    if (item.sent < item.header.size()) {
      parts[count++] = {item.header.data() + item.sent, item.header.size() - item.sent};
    }
    const size_t of_data = std::max(item.sent, item.header.size()) - item.header.size();
    if (of_data < item.bytes) {
      parts[count++] = {const_cast<uint8_t*>(item.data) + of_data, item.bytes - of_data};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(stream.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN) return;
      if (errno == EINTR) continue;
      closed(stream);
    }
    item.sent += static_cast<size_t>(sent);
    if (item.sent == item.header.size() + item.bytes) stream.queue.pop_front();
  }
}

void Uplink::wait(const Stream* receiving) {
  if (over_.aborted()) throw Aborted(over_.reason());
  std::vector<pollfd> watched{{over_.fd(), POLLIN, 0}};
  for (const Stream& stream : streams_) {
    short events = stream.queue.empty() ? 0 : POLLOUT;
    if (&stream == receiving) events |= POLLIN;
    if (events != 0) watched.push_back({stream.socket.get(), events, 0});
  }
  if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
    fail_errno(errno, "cannot wait for another host (poll)");
  }
  if (over_.aborted()) throw Aborted(over_.reason());
  for (Stream& stream : streams_) push(stream);
}

void Uplink::fill(Stream& stream, uint8_t* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::recv(stream.socket.get(), data, bytes, MSG_DONTWAIT);
    if (got > 0) {
      data += got;
      bytes -= static_cast<size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      wait(&stream);
    } else if (got == 0 || errno != EINTR) {
      closed(stream);
    }
  }
}

void Uplink::receive(int host, BlockKind kind, uint64_t call, uint64_t index, void* data,
                     size_t bytes) {
  Stream& stream = streams_[static_cast<size_t>(host)];
  uint8_t header[kBlockHeaderBytes];
  fill(stream, header, sizeof header);
  const auto block = parse_block_header(header);
  if (!block || *block != BlockHeader{kind, generation_, call, index, bytes}) {
    fail(
        "generation {}: another host sent {} instead of block {} of collective {} ({} bytes): the "
        "members have called different collectives",
        generation_,
        block ? fmt::format("block {} of collective {} of generation {} ({} bytes)", block->index,
                            block->call, block->generation, block->bytes)
              : "an unknown message",
        index, call, bytes);
  }
  fill(stream, static_cast<uint8_t*>(data), bytes);
}

void Uplink::flush(uint64_t ticket) {
  const auto pending = [ticket](const Stream& stream) {
    return !stream.queue.empty() && stream.queue.front().ticket <= ticket;
  };
  while (std::any_of(streams_.begin(), streams_.end(), pending)) wait(nullptr);
}

}  // namespace adaptdl::comm
