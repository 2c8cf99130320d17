#include "core/net/tcp.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <tuple>

#include "core/base/error.h"
#include "core/base/poll.h"

namespace adaptdl {
namespace {

constexpr std::chrono::milliseconds kHeadStart{250};  // RFC 8305 section 5

struct InternetAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  explicit InternetAddress(const TcpAddress& from) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    if (inet_pton(AF_INET, from.host.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(from.port);
      length = sizeof *v4;
    } else if (inet_pton(AF_INET6, from.host.c_str(), &v6->sin6_addr) == 1) {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(from.port);
      length = sizeof *v6;
    } else {
      fail("\"{}\" is not a numeric IP address", from.host);
    }
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::string congestion_control(int socket) {
  char name[16] = {};  // TCP_CA_NAME_MAX
  socklen_t length = sizeof name - 1;
  getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length);
  return name;
}

bool set_congestion_control(int socket, std::string_view name) {
  return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) == 0;
}

// BBR sends by each connection at the rate that it has measured there. Where each host exchanges
// blocks with all others, these rates differ, every block waits for the slowest, and no other uses
// what that one leaves free: an all_reduce of 100 MB over 8 hosts had 0.80 of links of 400 Mbit/s,
// with CUBIC 0.95. Over long ways BBR is better, as it keeps its rate when packets are lost. Its
// pacing cannot be ended once a socket is connected, so it begins without; accepted sockets have
// what the listener has. A process may lack the right to use CUBIC, but never Reno.
Fd new_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket && congestion_control(socket.get()).starts_with("bbr") &&
      !set_congestion_control(socket.get(), "cubic")) {
    set_congestion_control(socket.get(), "reno");
  }
  return socket;
}

void set_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

// Nothing, and errno, if the port is taken, for example.
Fd try_listen(const TcpAddress& address) {
  const InternetAddress at(address);
  Fd socket = new_socket(at.storage.ss_family);
  if (!socket) return socket;
  // Connections of a replica that has ended hold its port for a while.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (at.storage.ss_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), at.get(), at.length) != 0 || listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

}  // namespace

void suit_distance(int socket) {
  constexpr uint32_t kFarUs = 5'000;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_rtt < kFarUs) {
    return;
  }
  const Fd untouched(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string systems = congestion_control(untouched.get());
  if (systems.starts_with("bbr")) set_congestion_control(socket, systems);
}

Fd listen_tcp(TcpAddress& address, const PortRange& ports) {
  const bool all = address.host.empty();
  const int first = ports.any() ? address.port : ports.first;
  const int last = ports.any() ? address.port : ports.last;
  int error = 0;
  for (int port = first; port <= last; ++port) {
    for (const char* host : {"::", "0.0.0.0"}) {  // a system may have no IPv6
      Fd socket = try_listen({all ? host : address.host, static_cast<uint16_t>(port), ""});
      if (socket) {
        address.port = port_of(socket.get());
        return socket;
      }
      error = errno;
      if (!all || error == EADDRINUSE) break;
    }
  }
  const std::string where = all ? "this host" : address.host;
  if (!ports.any() && error == EADDRINUSE) {
    fail("all ports from {} to {} of {} are taken: give more by --ports FIRST-LAST", ports.first,
         ports.last, where);
  }
  fail_errno(error, fmt::format("cannot listen on {} port {}", where, last));
}

Fd listen_tcp(uint16_t port) {
  TcpAddress everywhere{"", port, ""};
  return listen_tcp(everywhere);
}

uint16_t port_of(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    fail_errno(errno, "cannot read the port of a socket");
  }
  return tcp_address(bound).port;
}

TcpAddress tcp_address(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {text, ntohs(v4.sin_port), ""};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return {text, ntohs(v6.sin6_port), ""};
}

std::vector<TcpAddress> leading_away(const std::vector<TcpAddress>& addresses,
                                     const std::vector<std::string>& own) {
  std::vector<TcpAddress> others = addresses;
  std::erase_if(others,
                [&own](const TcpAddress& each) { return std::ranges::count(own, each.host) != 0; });
  return others.empty() ? addresses : others;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  for (const HostAddress& each : host_addresses()) addresses.push_back(each.address);
  return addresses;
}

std::vector<TcpAddress> Spread::order(std::vector<TcpAddress> addresses) const {
  const auto count_of = [](const std::map<std::string, int>& counts, const std::string& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  };
  const auto turn = [&](const TcpAddress& each) {
    const bool last = silent_addresses_.contains(each.host) ||
                      (silent_.contains(each.interface) && !answering_.contains(each.interface));
    return std::tuple(last, count_of(by_interface_, each.interface),
                      count_of(by_address_, each.host));
  };
  std::ranges::stable_sort(addresses, {}, turn);
  const auto answers = [&](const TcpAddress& each) {
    return by_address_.contains(each.host) && !silent_addresses_.contains(each.host);
  };
  if (!addresses.empty()) std::stable_partition(addresses.begin() + 1, addresses.end(), answers);
  return addresses;
}

bool Spread::used(const std::vector<TcpAddress>& tried, size_t which) {
  for (size_t i = 0; i < which; ++i) {
    silent_addresses_.insert(tried[i].host);
    silent_.insert(tried[i].interface);
  }
  const TcpAddress& found = tried[which];
  silent_addresses_.erase(found.host);
  answering_.insert(found.interface);
  ++by_interface_[found.interface];
  return ++by_address_[found.host] == 1;
}

std::string connect_problem(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "refused";
    case ETIMEDOUT:
      return "timed out";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "no route to it";
    default:
      return std::strerror(error);
  }
}

Dialling::Dialling(const std::vector<TcpAddress>& addresses) {
  for (const TcpAddress& address : addresses) {
    const InternetAddress check(address);
    attempts_.push_back({address, {}, ""});
  }
}

void Dialling::begin(Attempt& attempt) {
  next_at_ = Monotonic::now() + kHeadStart;
  const InternetAddress to(attempt.address);
  attempt.socket = new_socket(to.storage.ss_family);
  if (!attempt.socket) {
    attempt.problem = connect_problem(errno);
  } else if (::connect(attempt.socket.get(), to.get(), to.length) != 0 && errno != EINPROGRESS &&
             errno != EINTR) {
    attempt.problem = connect_problem(errno);
    attempt.socket.reset();
  }
}

bool Dialling::any_open() const {
  return std::ranges::any_of(attempts_, [](const Attempt& each) { return bool(each.socket); });
}

bool Dialling::exhausted() const {
  return begun_ == attempts_.size() && !any_open();
}

std::optional<Dialling::Found> Dialling::connected(Attempt& attempt) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  Fd socket = std::move(attempt.socket);
  if (error == 0) return Found{std::move(socket), static_cast<size_t>(&attempt - &attempts_[0])};
  attempt.problem = connect_problem(error);
  return std::nullopt;
}

std::optional<Dialling::Found> Dialling::next(TimePoint deadline, int cancel) {
  for (;;) {
    while (begun_ < attempts_.size() && (!any_open() || Monotonic::now() >= next_at_)) {
      begin(attempts_[begun_++]);
    }
    if (exhausted() || Monotonic::now() >= deadline) return std::nullopt;
    std::vector<pollfd> waits{{cancel, POLLIN, 0}};
    for (const Attempt& each : attempts_) {
      waits.push_back({each.socket ? each.socket.get() : -1, POLLOUT, 0});
    }
    poll_until(waits, begun_ < attempts_.size() ? std::min(deadline, next_at_) : deadline);
    if (waits[0].revents != 0) return std::nullopt;
    for (size_t i = 0; i < attempts_.size(); ++i) {
      if (waits[i + 1].revents == 0) continue;
      if (auto found = connected(attempts_[i])) return found;
    }
  }
}

void Dialling::failed(size_t which, std::string problem) {
  attempts_.at(which).problem = std::move(problem);
}

std::string Dialling::problem(size_t which) const {
  const std::string& known = attempts_.at(which).problem;
  return known.empty() ? "timed out" : known;
}

std::string Dialling::problems() const {
  std::string text;
  for (size_t i = 0; i < attempts_.size(); ++i) {
    const TcpAddress& to = attempts_[i].address;
    text += fmt::format("{}{} port {}{}: {}", text.empty() ? "" : "; ", to.host, to.port,
                        to.interface.empty() ? "" : fmt::format(" ({})", to.interface), problem(i));
  }
  return text;
}

}  // namespace adaptdl
