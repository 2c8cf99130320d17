#include "runtime/comm/cpu/link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/net/socket.h"
#include "core/net/tcp.h"

namespace adaptdl::comm {
namespace {

constexpr int kBacklog = 512;

bool peer_is_gone(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT || error == ENOTCONN ||
         error == ECONNABORTED || error == EHOSTUNREACH || error == ENETUNREACH;
}

struct AbstractName {
  sockaddr_un address{};
  socklen_t length;
  explicit AbstractName(const std::string& name) {
    address.sun_family = AF_UNIX;
    if (name.empty() || name.size() + 1 > sizeof address.sun_path) {
      fail("abstract socket name of {} bytes: must have 1 to {}", name.size(),
           sizeof address.sun_path - 1);
    }
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Fd new_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) fail_errno(errno, "cannot create a socket");
  return socket;
}

// Room for one descriptor.
union Ancillary {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

void Patience::check() const {
  if (abort != nullptr && abort->aborted()) throw Aborted(abort->reason());
}

int Patience::cancel() const {
  return abort != nullptr ? abort->fd() : -1;
}

bool Patience::wait(int fd, short events) const {
  for (;;) {
    check();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Monotonic::now());
    if (left.count() <= 0) return false;
    pollfd watched[2] = {{fd, events, 0}, {cancel(), POLLIN, 0}};
    const int ready = poll(watched, 2, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno != EINTR) fail_errno(errno, "cannot wait for a connection (poll)");
    if (ready > 0) {
      check();
      if (watched[0].revents != 0) return true;
    }
  }
}

Outcome send_whole(Stream& stream, std::string_view bytes, const Patience& patience) {
  while (!bytes.empty()) {
    size_t sent = 0;
    const IoState state = stream.send(bytes, sent);
    if (state == IoState::closed) return Outcome::closed;
    if (state == IoState::later && !patience.wait(stream.fd(), POLLOUT)) return Outcome::late;
    bytes.remove_prefix(sent);
  }
  return Outcome::done;
}

Outcome receive_whole(Stream& stream, std::span<uint8_t> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    size_t got = 0;
    const IoState state = stream.recv(std::as_writable_bytes(bytes), got);
    if (state == IoState::closed) return Outcome::closed;
    if (state == IoState::later && !patience.wait(stream.fd(), POLLIN)) return Outcome::late;
    bytes = bytes.subspan(got);
  }
  return Outcome::done;
}

Outcome send_fd(Stream& stream, std::string_view bytes, int fd, const Patience& patience) {
  for (;;) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    Ancillary ancillary{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.bytes;
    message.msg_controllen = sizeof ancillary.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    const ssize_t sent = sendmsg(stream.fd(), &message, MSG_NOSIGNAL);
    // The descriptor travels with the first byte.
    if (sent > 0) return send_whole(stream, bytes.substr(static_cast<size_t>(sent)), patience);
    if (sent < 0 && errno == EAGAIN) {
      if (!patience.wait(stream.fd(), POLLOUT)) return Outcome::late;
    } else if (sent < 0 && peer_is_gone(errno)) {
      return Outcome::closed;
    } else if (sent < 0 && errno != EINTR) {
      fail_errno(errno, "cannot send shared memory to a member");
    }
  }
}

std::optional<Fd> receive_fd(Stream& stream, std::span<uint8_t> bytes, const Patience& patience) {
  for (;;) {
    if (!patience.wait(stream.fd(), POLLIN)) return std::nullopt;
    iovec part{bytes.data(), bytes.size()};
    Ancillary ancillary{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.bytes;
    message.msg_controllen = sizeof ancillary.bytes;
    const ssize_t got = recvmsg(stream.fd(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return std::nullopt;
    Fd received;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      received = Fd(fd);
    }
    if (!received) return std::nullopt;
    const auto rest = bytes.subspan(static_cast<size_t>(got));
    if (receive_whole(stream, rest, patience) != Outcome::done) return std::nullopt;
    return received;
  }
}

Fd listen_abstract(const std::string& name) {
  Fd socket = new_socket(AF_UNIX);
  const AbstractName address(name);
  if (bind(socket.get(), address.get(), address.length) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    fail_errno(errno, "cannot listen on a Unix socket");
  }
  return socket;
}

Dialled dial_abstract(const std::string& name, const Patience& patience) {
  const AbstractName address(name);
  for (;;) {
    Fd socket = new_socket(AF_UNIX);
    if (::connect(socket.get(), address.get(), address.length) == 0) return {std::move(socket), ""};
    if (errno == ECONNREFUSED) return {Fd(), "its process is gone"};
    if (errno != EAGAIN && errno != EINTR) return {Fd(), std::strerror(errno)};
    // The listener's queue is full, and no event tells when it has room: sleep.
    if (Monotonic::now() >= patience.deadline) return {Fd(), "it does not accept connections"};
    patience.check();
    usleep(1000);
  }
}

Dialled dial_tcp(const TcpAddress& address, const Patience& patience) {
  Dialling dialling({address});
  auto found = dialling.next(patience.deadline, patience.cancel());
  patience.check();
  if (!found) return {Fd(), dialling.problem(0)};
  tune_tcp(found->socket.get());
  return {std::move(found->socket), ""};
}

void tune_tcp(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);  // tuning only: failure is harmless
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kSilence.count()));
  resend_often(fd);
  suit_distance(fd);
}

void tolerate_late_peer(int fd) {
  const int systems = 0;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &systems, sizeof systems);
}

bool unanswered(int fd, std::chrono::milliseconds silence) {
  // The first one may just be on its way.
  constexpr int kAttempts = 2;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  // What comes while nothing is sent from here counts as data alone.
  const uint32_t silent_ms = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
  return silent_ms > silence.count() &&
         (info.tcpi_retransmits >= kAttempts || info.tcpi_probes >= kAttempts);
}

std::string local_address(int socket) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&local), &length) != 0) return "?";
  return tcp_address(local).host;
}

std::string describe_socket(int fd) {
  sockaddr_storage local{}, remote{};
  socklen_t local_length = sizeof local, remote_length = sizeof remote;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_length) != 0) return "?";
  if (local.ss_family == AF_UNIX) return "unix";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_length) != 0) return "tcp ?";
  const TcpAddress here = tcp_address(local), there = tcp_address(remote);
  return fmt::format("tcp {}:{} -> {}:{} via {}", here.host, here.port, there.host, there.port,
                     interface_of(here.host));
}

}  // namespace adaptdl::comm
