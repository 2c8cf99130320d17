#include "core/net/socket.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"

namespace adaptdl {

namespace {

constexpr useconds_t kNoDescriptor = 20'000;  // microseconds; the listener stays ready meanwhile

// The kernel accepts paths of at most 107 bytes. A longer one goes through its folder's descriptor,
// which must stay open until the address has been used.
struct Address {
  sockaddr_un name{};
  Fd folder;

  explicit Address(const std::string& path) {
    name.sun_family = AF_UNIX;
    std::string shown = path;
    if (shown.size() >= sizeof(name.sun_path)) {
      folder = open_file(parent_directory(path), O_PATH | O_DIRECTORY);
      shown = fmt::format("/proc/self/fd/{}/{}", folder.get(), file_name(path));
    }
    if (shown.size() >= sizeof(name.sun_path)) fail("{}: the path is too long", path);
    std::memcpy(name.sun_path, shown.data(), shown.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Fd unix_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_errno(errno, "cannot create a socket");
  return Fd(fd);
}

// 0, or the errno of connecting.
int connect_error(int fd, const Address& address) {
  for (;;) {
    if (::connect(fd, address.get(), sizeof(address.name)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

bool nobody_there(int error) {
  return error == ENOENT || error == ECONNREFUSED;
}

bool peer_gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ECONNABORTED;
}

}  // namespace

Fd listen_unix(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) fail("{}: exists and is not a socket; remove it", path);
    if (try_connect_unix(path)) fail("{}: another process is listening there", path);
    ::unlink(path.c_str());
  }
  Fd fd = unix_socket();
  // Linux takes the new name's mode from the socket's own, so it is never open to others.
  if (fchmod(fd.get(), 0600) != 0) fail_errno(errno, path);
  const Address address(path);
  if (::bind(fd.get(), address.get(), sizeof(address.name)) != 0) {
    fail_errno(errno, path + ": cannot create this socket");
  }
  if (::listen(fd.get(), 64) != 0) fail_errno(errno, path + ": cannot listen");
  return fd;
}

std::optional<Fd> try_connect_unix(const std::string& path, bool may_block) {
  if (!path_exists(path)) return std::nullopt;
  Fd fd = unix_socket();
  if (!may_block) set_nonblocking(fd.get());
  const int error = connect_error(fd.get(), Address(path));
  if (nobody_there(error) || error == EAGAIN) return std::nullopt;
  if (!may_block) set_nonblocking(fd.get(), false);
  if (error != 0) fail_errno(error, path + ": cannot connect");
  return fd;
}

Fd connect_unix(const std::string& path) {
  std::optional<Fd> fd = try_connect_unix(path);
  if (!fd) fail("{}: no process is listening there", path);
  return std::move(*fd);
}

std::optional<Fd> accept_same_user(int listener) {
  for (;;) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
      if (errno == EMFILE || errno == ENFILE) {  // it waits until a descriptor is free
        ::usleep(kNoDescriptor);
        return std::nullopt;
      }
      fail_errno(errno, "cannot accept a connection");
    }
    const uid_t uid = peer_of(fd.get()).uid;
    if (uid == geteuid() || uid == 0) return fd;
  }
}

Peer peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    fail_errno(errno, "cannot read which process is at the other end of a socket");
  }
  return {credentials.uid, credentials.pid};
}

std::pair<Fd, Fd> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    fail_errno(errno, "cannot create a pair of sockets");
  }
  return {Fd(fds[0]), Fd(fds[1])};
}

void resend_often(int socket) {
  constexpr int kTcpRtoMaxMs = 44;  // TCP_RTO_MAX_MS, which older headers do not have
  const int most = 2000;
  ::setsockopt(socket, IPPROTO_TCP, kTcpRtoMaxMs, &most, sizeof most);
}

bool send_all(int socket, std::string_view bytes, std::optional<TimePoint> deadline) {
  while (!bytes.empty()) {
    // With a deadline no call may block, however the socket is set.
    const int flags = MSG_NOSIGNAL | (deadline ? MSG_DONTWAIT : 0);
    const ssize_t put = ::send(socket, bytes.data(), bytes.size(), flags);
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(socket, POLLOUT, deadline)) return false;
    } else if (peer_gone(errno)) {
      return false;
    } else if (errno != EINTR) {
      fail_errno(errno, "cannot send");
    }
  }
  return true;
}

std::optional<size_t> recv_some(int socket, std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (peer_gone(errno)) return 0;
    if (errno != EINTR) fail_errno(errno, "cannot receive");
  }
}

bool recv_exactly(int socket, std::span<std::byte> bytes, std::optional<TimePoint> deadline) {
  while (!bytes.empty()) {
    if (deadline && !wait_ready(socket, POLLIN, deadline)) return false;
    const std::optional<size_t> got = recv_some(socket, bytes);
    if (!got) {
      if (!wait_ready(socket, POLLIN, deadline)) return false;
    } else if (*got == 0) {
      return false;
    } else {
      bytes = bytes.subspan(*got);
    }
  }
  return true;
}

}  // namespace adaptdl
