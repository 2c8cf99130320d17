#include "runtime/comm/cpu/uplink.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>

namespace adaptdl::comm {

Uplink::Uplink(uint64_t generation, std::vector<Stream> streams, const AbortSignal& over)
    : generation_(generation), over_(over) {
  for (Stream& stream : streams) links_.push_back({std::move(stream), {}});
}

void Uplink::closed(const Link& link) const {
  const std::string problem = link.stream.problem();
  throw LinkClosed(fmt::format("generation {}: the data link to host {} closed{}{}", generation_,
                               &link - links_.data(), problem.empty() ? "" : ": ", problem));
}

uint64_t Uplink::send(int host, BlockKind kind, uint64_t call, uint64_t index, const void* data,
                      size_t bytes) {
  Link& link = links_[static_cast<size_t>(host)];
  link.queue.push_back({encode(BlockHeader{kind, generation_, call, index, bytes}),
                        static_cast<const char*>(data), bytes, 0, ++last_ticket_});
  push(link);
  return last_ticket_;
}

void Uplink::push(Link& link) {
  while (!link.queue.empty()) {
    Outgoing& item = link.queue.front();
    const size_t of_header = std::min(item.sent, item.header.size());
    const size_t of_data = item.sent - of_header;
    size_t sent = 0;
    const IoState state = link.stream.send(std::string_view(item.header).substr(of_header),
                                           {item.data + of_data, item.bytes - of_data}, sent);
    if (state == IoState::later) return;
    if (state == IoState::closed) closed(link);
    item.sent += sent;
    if (item.sent == item.header.size() + item.bytes) link.queue.pop_front();
  }
}

void Uplink::wait(const Link* receiving) {
  if (over_.aborted()) throw Aborted(over_.reason());
  std::vector<pollfd> watched{{over_.fd(), POLLIN, 0}};
  for (const Link& link : links_) {
    short events = link.queue.empty() ? 0 : POLLOUT;
    if (&link == receiving) events |= POLLIN;
    if (events != 0) watched.push_back({link.stream.fd(), events, 0});
  }
  if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
    fail_errno(errno, "cannot wait for another host (poll)");
  }
  if (over_.aborted()) throw Aborted(over_.reason());
  for (Link& link : links_) push(link);
}

void Uplink::fill(Link& link, std::span<std::byte> data) {
  while (!data.empty()) {
    size_t got = 0;
    const IoState state = link.stream.recv(data, got);
    if (state == IoState::closed) closed(link);
    if (state == IoState::later) wait(&link);
    data = data.subspan(got);
  }
}

void Uplink::receive(int host, BlockKind kind, uint64_t call, uint64_t index, void* data,
                     size_t bytes) {
  Link& link = links_[static_cast<size_t>(host)];
  uint8_t header[kBlockHeaderBytes];
  fill(link, std::as_writable_bytes(std::span(header)));
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
  fill(link, {static_cast<std::byte*>(data), bytes});
}

void Uplink::flush(uint64_t ticket) {
  const auto pending = [ticket](const Link& link) {
    return !link.queue.empty() && link.queue.front().ticket <= ticket;
  };
  while (std::any_of(links_.begin(), links_.end(), pending)) wait(nullptr);
}

}  // namespace adaptdl::comm
