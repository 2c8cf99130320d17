#include "runtime/comm/cpu/uplink.h"

#include <algorithm>
#include <cerrno>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace adaptdl::comm {
namespace {

// After one of several links has ended, how long the others may bring nothing: a peer that leaves
// or dies ends them all, but lost packets of what it has sent come again first.
constexpr std::chrono::seconds kOthersPatience{2};

// To measure how fast a link is: the least that is left, as smaller blocks only show the latency;
// how long what was measured counts; and after how long without a block it is worth one to measure
// anew.
constexpr size_t kLeastMeasured = 16 << 10;
constexpr double kMeasureMemory = 0.25, kMeasureAnew = 5;  // s

// Bytes that the kernel has taken and the peer has not.
size_t in_flight(int socket) {
  int bytes = 0;
  return ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

// Nothing if the peer has ended the link.
std::string cause_of(int error) {
  if (error == ETIMEDOUT) return "no answer: that host, or the network to it, is down";
  return error == EHOSTUNREACH || error == ENETUNREACH ? connect_problem(error) : "";
}

}  // namespace

Uplink::Uplink(uint64_t generation, std::vector<std::vector<Stream>> streams,
               const AbortSignal& over, std::chrono::milliseconds silence)
    : generation_(generation), over_(over), silence_(silence) {
  for (size_t host = 0; host < streams.size(); ++host) {
    Peer& peer = peers_.emplace_back();
    for (Stream& stream : streams[host]) {
      tolerate_late_peer(stream.fd());
      peer.links.push_back({.stream = std::move(stream), .host = host});
    }
  }
}

void Uplink::closed(const Link& link) const {
  std::string problem = link.stream.problem();
  if (problem.empty()) problem = cause_of(link.error);
  throw LinkClosed(fmt::format("generation {}: the data link to host {} closed{}{}", generation_,
                               link.host, problem.empty() ? "" : ": ", problem));
}

IoState Uplink::Link::recv(std::span<std::byte> to, size_t& got) {
  errno = 0;
  const IoState state = stream.recv(to, got);
  if (state == IoState::closed) error = errno;
  return state;
}

void Uplink::look_at(Link& link) {
  size_t left = in_flight(link.stream.fd());
  for (const Outgoing& item : link.queue) left += item.left();
  const TimePoint now = Monotonic::now();
  const double taken = static_cast<double>(link.left) - static_cast<double>(left);
  const double seconds = seconds_between(link.looked_at, now);
  if (link.left >= kLeastMeasured && left > 0) {
    // Longer, it was not the link: the peer has not received, or this host had nothing to do there.
    if (seconds < kMeasureMemory) {
      link.taken_bytes += taken;
      link.taken_s += seconds;
    }
  } else if (link.taken_s > 0 && link.bytes_per_s() * seconds < taken) {  // or in less time
    link.taken_bytes = taken;
    link.taken_s = seconds;
  }
  if (link.taken_s > kMeasureMemory) {
    link.taken_bytes /= 2;
    link.taken_s /= 2;
  }
  if (left == 0 && seconds_between(link.queued_at, now) > kMeasureAnew) {
    link.taken_bytes = link.taken_s = 0;
  }
  link.left = left;
  link.looked_at = now;
}

Uplink::Link& Uplink::first_to_send(Peer& peer, size_t bytes) {
  if (peer.links.size() == 1) return peer.links.front();
  double fastest = 0;
  for (Link& link : peer.links) {
    look_at(link);
    fastest = std::max(fastest, link.bytes_per_s());
  }
  // One that was never measured may be as fast as any.
  const auto seconds = [&](const Link& link) {
    const double speed = link.taken_s > 0 ? link.bytes_per_s() : fastest;
    return static_cast<double>(link.left + kBlockHeaderBytes + bytes) / std::max(speed, 1.0);
  };
  Link& chosen = *std::ranges::min_element(peer.links, {}, seconds);
  chosen.left += kBlockHeaderBytes + bytes;
  chosen.queued_at = chosen.looked_at;
  return chosen;
}

uint64_t Uplink::send(int host, BlockKind kind, uint64_t call, uint64_t index, const void* data,
                      size_t bytes) {
  Peer& peer = peers_[static_cast<size_t>(host)];
  Link& link = first_to_send(peer, bytes);
  link.queue.push_back(
      {.header = encode(BlockHeader{kind, generation_, call, index, bytes, peer.sent++}),
       .data = static_cast<const char*>(data),
       .bytes = bytes,
       .ticket = ++last_ticket_});
  push(link);
  return last_ticket_;
}

void Uplink::push(Link& link) {
  while (!link.queue.empty()) {
    Outgoing& item = link.queue.front();
    const size_t of_header = std::min(item.sent, item.header.size());
    const size_t of_data = item.sent - of_header;
    size_t sent = 0;
    errno = 0;
    const IoState state = link.stream.send(std::string_view(item.header).substr(of_header),
                                           {item.data + of_data, item.bytes - of_data}, sent);
    if (state == IoState::later) return;
    if (state == IoState::closed) {
      link.error = errno;
      closed(link);
    }
    item.sent += sent;
    if (item.left() == 0) link.queue.pop_front();
  }
}

void Uplink::push_all() {
  for (Peer& peer : peers_) {
    for (Link& link : peer.links) push(link);
  }
}

// The kernel itself does not find a dead network in which it has something to send. (The control
// link goes by one network only.)
void Uplink::look_for_silence() {
  const TimePoint now = Monotonic::now();
  if (now < next_look_) return;
  next_look_ = now + silence_ / 10;
  for (Peer& peer : peers_) {
    for (Link& link : peer.links) {
      if (!unanswered(link.stream.fd(), silence_)) continue;
      link.error = ETIMEDOUT;
      closed(link);
    }
  }
}

bool Uplink::wait(std::span<const Link* const> reading, TimePoint deadline) {
  if (over_.aborted()) throw Aborted(over_.reason());
  std::vector<pollfd> watched{{over_.fd(), POLLIN, 0}};
  for (const Peer& peer : peers_) {
    for (const Link& link : peer.links) {
      short events = link.queue.empty() ? 0 : POLLOUT;
      if (std::ranges::count(reading, &link) != 0) events |= POLLIN;
      if (events != 0) watched.push_back({link.stream.fd(), events, 0});
    }
  }
  int ready = 0;
  while (ready == 0 && Monotonic::now() < deadline) {
    look_for_silence();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline, next_look_) -
                                                                   Monotonic::now());
    ready =
        poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
  }
  if (ready < 0 && errno != EINTR) fail_errno(errno, "cannot wait for another host (poll)");
  if (over_.aborted()) throw Aborted(over_.reason());
  push_all();
  return ready != 0;
}

void Uplink::fill(Link& link, std::span<std::byte> data) {
  const Link* const reading[] = {&link};
  while (!data.empty()) {
    size_t got = 0;
    const IoState state = link.recv(data, got);
    if (state == IoState::closed) closed(link);
    if (state == IoState::later) wait(reading);
    data = data.subspan(got);
  }
}

// As much of it as is there.
void Uplink::read_header(Link& link) {
  while (!link.ended && link.header_bytes < kBlockHeaderBytes) {
    size_t got = 0;
    const IoState state =
        link.recv(std::as_writable_bytes(std::span(link.header).subspan(link.header_bytes)), got);
    if (state == IoState::later) return;
    if (state == IoState::closed && link.header_bytes > 0) closed(link);
    link.ended = state == IoState::closed;
    link.header_bytes += got;
  }
  if (link.ended || link.block) return;
  link.block = parse_block_header(link.header);
  if (!link.block) fail("generation {}: another host sent an unknown message", generation_);
}

Uplink::Link& Uplink::next_block(Peer& peer) {
  std::vector<const Link*> silent;
  for (;;) {
    silent.clear();
    const Link* ended = nullptr;
    for (Link& link : peer.links) {
      read_header(link);
      if (link.ended) ended = &link;
      if (!link.ended && !link.block) silent.push_back(&link);
      if (link.block && link.block->sequence == peer.received) return link;
    }
    if (ended != nullptr && silent.empty()) closed(*ended);
    // Each has a block, and none is the next one: the caller tells what has come instead.
    if (silent.empty()) return peer.links.front();
    const TimePoint deadline =
        ended != nullptr ? Monotonic::now() + kOthersPatience : TimePoint::max();
    if (!wait(silent, deadline)) closed(*ended);
  }
}

void Uplink::receive(int host, BlockKind kind, uint64_t call, uint64_t index, void* data,
                     size_t bytes) {
  Peer& peer = peers_[static_cast<size_t>(host)];
  Link& link = next_block(peer);
  const BlockHeader block = *link.block;
  if (block != BlockHeader{kind, generation_, call, index, bytes, peer.received}) {
    fail(
        "generation {}: another host sent block {} of collective {} of generation {} ({} bytes) "
        "instead of block {} of collective {} ({} bytes): the members have called different "
        "collectives",
        generation_, block.index, block.call, block.generation, block.bytes, index, call, bytes);
  }
  ++peer.received;
  link.block.reset();
  link.header_bytes = 0;
  fill(link, {static_cast<std::byte*>(data), bytes});
  // If nothing follows, the kernel would acknowledge the end only 40 ms later (RFC 1122, section
  // 4.2.3.2), and the sender would take the link for busy.
  const int now = 1;
  setsockopt(link.stream.fd(), IPPROTO_TCP, TCP_QUICKACK, &now, sizeof now);
}

Uplink::Use Uplink::use(int host) const {
  Use sum;
  const std::vector<Link>& links = peers_[static_cast<size_t>(host)].links;
  for (const Link& link : links) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(link.stream.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
    if (size < offsetof(tcp_info, tcpi_rwnd_limited) + sizeof info.tcpi_rwnd_limited) return {};
    const auto busy_us = static_cast<double>(info.tcpi_busy_time - info.tcpi_rwnd_limited);
    sum.bytes += static_cast<double>(info.tcpi_bytes_acked);
    sum.busy_s += busy_us / 1e6 / static_cast<double>(links.size());
  }
  return sum;
}

void Uplink::flush(uint64_t ticket) {
  const auto pending = [ticket](const Link& link) {
    return !link.queue.empty() && link.queue.front().ticket <= ticket;
  };
  const auto any = [&](const Peer& peer) { return std::ranges::any_of(peer.links, pending); };
  while (std::ranges::any_of(peers_, any)) wait({});
}

}  // namespace adaptdl::comm
