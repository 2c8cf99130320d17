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

void set_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
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
  const std::string where = fmt::format("{} port {}", host, port);
  if (error == ECONNREFUSED) throw ConnectionRefused(where + ": connection refused");
  fail_errno(error, where);
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
