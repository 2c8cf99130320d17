#include "core/launch/hosts/agent_link.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/formats/json.h"
#include "core/net/socket.h"
#include "core/net/tcp.h"

namespace adaptdl::launch {

namespace {

constexpr Monotonic::duration kLeastShare = std::chrono::milliseconds(300);

void set_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

// When the first of so many addresses has had its share of the time that is left.
TimePoint share_of(TimePoint deadline, int addresses) {
  const TimePoint now = Monotonic::now();
  if (addresses == 1 || deadline <= now) return deadline;
  return std::min(deadline, now + std::max((deadline - now) / addresses, kLeastShare));
}

// Returns the number of the error; 0: it is connected.
int try_connect(const addrinfo& to, TimePoint deadline, Fd& fd) {
  fd = Fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) return errno;
  if (!wait_ready(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

TlsKey agent_key(const std::string& secret, const std::string& run) {
  return TlsKey(hmac_sha256(bytes_of(secret), bytes_of("adaptdl agent\n" + run)));
}

std::string run_secret(const std::string& secret, const std::string& run_id) {
  return to_hex(hmac_sha256(bytes_of(secret), bytes_of("adaptdl run\n" + run_id)));
}

nlohmann::json to_json(const PassedOn& told) {
  return {{"generation", told.generation}, {"step", told.step}};
}

PassedOn passed_on_from_json(const nlohmann::json& json, const char* what) {
  return {json_get<uint64_t>(json, "generation", what), json_get<int64_t>(json, "step", what)};
}

Fd connect_tcp(const std::string& host, uint16_t port, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (problem != 0) fail("{}: {}", host, gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  return connect_first(*found, fmt::format("{} port {}", host, port), deadline);
}

Fd connect_first(const addrinfo& addresses, const std::string& where, TimePoint deadline) {
  int left = 0;
  for (const addrinfo* each = &addresses; each != nullptr; each = each->ai_next) ++left;
  int problem = ECONNREFUSED;
  for (const addrinfo* each = &addresses; each != nullptr; each = each->ai_next, --left) {
    Fd fd;
    const int error = try_connect(*each, share_of(deadline, left), fd);
    if (error == 0) return fd;
    if (error != ECONNREFUSED) problem = error;
  }
  if (problem == ECONNREFUSED) throw ConnectionRefused(where + ": connection refused");
  fail_errno(problem, where);
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
  suit_distance(socket);
}

Monotonic::duration beat_pause(Seconds silence) {
  return std::chrono::duration_cast<Monotonic::duration>(silence / 4);
}

}  // namespace adaptdl::launch
