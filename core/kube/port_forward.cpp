#include "core/kube/port_forward.h"

#include <array>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/poll.h"
#include "core/kube/channels.h"
#include "core/net/http_message.h"
#include "core/net/socket.h"

namespace adaptdl::kube {
namespace {

constexpr char kDataChannel = 0, kErrorChannel = 1;
constexpr size_t kSocketPiece = 32u << 10;
constexpr Seconds kAfterEnd{2.0};
constexpr Seconds kPing{5.0};

// Prefers IPv4 if a name, such as localhost, has both.
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
Addresses look_up(const std::string& address, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  int problem = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    hints.ai_family = family;
    problem = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (problem == 0) return {found, &freeaddrinfo};
  }
  fail("{}: cannot resolve this address: {}", address, gai_strerror(problem));
}

Fd listen_on(const std::string& address, uint16_t port, uint16_t& chosen) {
  const std::string what = fmt::format("{}:{}", url_host(address), port);
  const Addresses found = look_up(address, port);
  Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_errno(errno, what + ": cannot create a socket");
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) fail("{}: another program listens there: choose another port", what);
    fail_errno(errno, what + ": cannot listen");
  }
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  auto* generic = reinterpret_cast<sockaddr*>(&name);
  ADAPTDL_CHECK(::getsockname(fd.get(), generic, &size) == 0);
  // The port is at the same offset for IPv4 and IPv6.
  chosen = ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
  return fd;
}

// Forwards one connection in both directions.
class Bridge {
 public:
  Bridge(WebSocket& remote, int local, const Cancellation& cancel)
      : remote_(remote), local_(local), cancel_(cancel) {}

  // Returns the error of the pod's side, or "".
  std::string run() {
    while (!over_) {
      wait();
      hear();
      write_local();
      const bool silent = seconds_since(heard_) > kAfterEnd.count();
      if (local_ended_ && silent && to_local_.empty()) break;
    }
    write_local();
    return error_;
  }

 private:
  void wait() {
    // Read each side no faster than the other side accepts.
    const bool read = !local_ended_ && !remote_.has_unsent();
    const short local_events =
        static_cast<short>((read ? POLLIN : 0) | (to_local_.empty() ? 0 : POLLOUT));
    const bool hear = to_local_.size() < 16 * kSocketPiece;
    const short remote_events =
        static_cast<short>((hear ? POLLIN : 0) | (remote_.has_unsent() ? POLLOUT : 0));
    std::array<pollfd, 3> fds{{{local_events != 0 ? local_ : -1, local_events, 0},
                               {remote_.fd(), remote_events, 0},
                               {cancel_.fd(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), more_ && !is_full() ? 0 : 500) < 0 && errno != EINTR)
      fail_errno(errno, "poll");
    if (fds[2].revents != 0) over_ = true;
    remote_.flush();
    if (read && fds[0].revents != 0) read_local();
    if (seconds_since(pinged_) > kPing.count()) {
      pinged_ = Monotonic::now();
      remote_.ping();
    }
  }

  bool is_full() const { return to_local_.size() >= 16 * kSocketPiece; }

  void hear() {
    for (more_ = false; !over_;) {
      if (is_full()) {
        more_ = true;               // messages may be in memory, where poll(2) does not see them
        heard_ = Monotonic::now();  // the pause is on this side
        return;
      }
      const auto message = remote_.receive();
      if (!message) return;
      take(*message);
    }
  }

  void read_local() {
    std::array<char, kSocketPiece + 1> piece;
    piece[0] = kDataChannel;
    const ssize_t got = ::recv(local_, piece.data() + 1, kSocketPiece, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) return remote_.send({piece.data(), static_cast<size_t>(got) + 1});
    local_ended_ = true;
    heard_ = Monotonic::now();
    if (got < 0) over_ = true;
  }

  void take(const WebSocketMessage& message) {
    if (message.type == WebSocketMessage::Type::close) {
      over_ = true;
      return;
    }
    heard_ = Monotonic::now();
    if (message.data.empty()) return;
    const char channel = message.data[0];
    std::string_view data = std::string_view(message.data).substr(1);
    if (channel != kDataChannel && channel != kErrorChannel) return;
    // The first message of each channel is the port, two bytes.
    bool& begun = channel == kDataChannel ? data_begun_ : errors_begun_;
    if (!std::exchange(begun, true)) data.remove_prefix(std::min<size_t>(2, data.size()));
    (channel == kDataChannel ? to_local_ : error_) += data;
    if (!error_.empty()) over_ = true;
  }

  void write_local() {
    while (!to_local_.empty()) {
      const ssize_t sent = ::send(local_, to_local_.data(), to_local_.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN && over_) {
        if (!wait_ready(local_, POLLOUT, Monotonic::now() + std::chrono::seconds(2))) return;
        continue;
      }
      if (sent < 0 && errno == EAGAIN) return;
      if (sent < 0) {
        over_ = true;
        to_local_.clear();
        return;
      }
      to_local_.erase(0, static_cast<size_t>(sent));
    }
  }

  WebSocket& remote_;
  const int local_;
  const Cancellation& cancel_;
  bool over_ = false, more_ = false, local_ended_ = false, data_begun_ = false,
       errors_begun_ = false;
  std::string to_local_, error_;
  TimePoint heard_ = Monotonic::now(), pinged_ = Monotonic::now();
};

}  // namespace

PortForward::PortForward(Client& client, Resource pod, uint16_t pod_port, uint16_t port,
                         const std::string& address)
    : client_(client), pod_(std::move(pod)), pod_port_(pod_port) {
  listener_ = listen_on(address, port, port_);
  thread_ = std::thread([this] { listen(); });
}

PortForward::~PortForward() {
  cancel_.cancel();
  thread_.join();
  for (Connection& connection : connections_) connection.thread.join();
}

void PortForward::listen() {
  while (!cancel_.cancelled()) {
    std::array<pollfd, 2> fds{{{listener_.get(), POLLIN, 0}, {cancel_.fd(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0 || fds[0].revents == 0) continue;
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      cancel_.wait_for(Seconds(0.1));  // no free descriptor, or the client is gone
      continue;
    }
    connections_.remove_if([&](Connection& connection) {
      const std::lock_guard lock(mutex_);
      if (connection.over) connection.thread.join();
      return connection.over;
    });
    Connection& connection = connections_.emplace_back();
    connection.thread = std::thread([this, &connection, taken = std::move(socket)]() mutable {
      serve(std::move(taken));
      const std::lock_guard lock(mutex_);
      connection.over = true;
    });
  }
}

void PortForward::serve(Fd socket) {
  Resource target = pod_;
  target.subresource = "portforward";
  try {
    const auto remote = open_channels(client_, target, {{"ports", fmt::format("{}", pod_port_)}},
                                      {"v4.channel.k8s.io"});
    const std::string error = Bridge(*remote, socket.get(), cancel_).run();
    if (!error.empty()) log_warning("port {} of {}: {}", pod_port_, pod_.describe(), error);
  } catch (const Error& error) {
    log_warning("port {} of {}: {}", pod_port_, pod_.describe(), error.what());
  }
}

}  // namespace adaptdl::kube
