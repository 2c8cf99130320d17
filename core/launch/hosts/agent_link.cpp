#include "core/launch/hosts/agent_link.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/net/socket.h"

namespace adaptdl::launch {

namespace {

void set_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

// Listens on IPv4 and IPv6 addresses if the system has both.
Fd try_listen(int family, uint16_t port) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in6 six{};
  sockaddr_in four{};
  if (family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const bool is_six = family == AF_INET6;
  const auto* address =
      is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  const auto size = static_cast<socklen_t>(is_six ? sizeof six : sizeof four);
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) fd.reset();
  return fd;
}

}  // namespace

TlsKey agent_key(const std::string& secret, const std::string& run) {
  return TlsKey(hmac_sha256(bytes_of(secret), bytes_of("adaptdl agent\n" + run)));
}

std::string run_secret(const std::string& secret, const std::string& run_id) {
  return to_hex(hmac_sha256(bytes_of(secret), bytes_of("adaptdl run\n" + run_id)));
}

Fd listen_tcp(uint16_t port) {
  for (const int family : {AF_INET6, AF_INET}) {
    if (Fd fd = try_listen(family, port)) return fd;
  }
  fail_errno(errno, fmt::format("cannot listen on TCP port {} for agents of other hosts", port));
}

uint16_t port_of(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail_errno(errno, "cannot find the port for agents");
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

Fd connect_tcp(const std::string& host, uint16_t port, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (problem != 0) fail("{}: {}", host, gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Fd fd(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      error = errno;
      continue;
    }
    if (::connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0 && errno != EINPROGRESS) {
      error = errno;
      continue;
    }
    if (!wait_ready(fd.get(), POLLOUT, deadline)) {
      error = ETIMEDOUT;
      continue;
    }
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
  }
  fail_errno(error, fmt::format("{} port {}", host, port));
}

void watch_peer(int socket, Seconds silence) {
  // Before the first beat, too: a stranger may say nothing at all.
  const int pause = std::max(1, static_cast<int>(silence.count() / 4));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, pause);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, pause);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count() * 1000));
  resend_often(socket);
}

Monotonic::duration beat_pause(Seconds silence) {
  return std::chrono::duration_cast<Monotonic::duration>(silence / 4);
}

}  // namespace adaptdl::launch
