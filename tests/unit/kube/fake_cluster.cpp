#include "tests/unit/kube/fake_cluster.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/net/socket.h"
#include "tests/unit/kube/fake_api_request.h"
#include "tests/unit/kube/fake_exec.h"

namespace adaptdl::kube {

using namespace fake;

namespace {

constexpr size_t kHead = 16u << 10;

Fd listen_anywhere(uint16_t& port) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (::bind(listener.get(), any, size) != 0 || ::listen(listener.get(), 64) != 0 ||
      ::getsockname(listener.get(), any, &size) != 0) {
    fail_errno(errno, "the fake cluster");
  }
  port = ntohs(address.sin_port);
  return listener;
}

Fd connect_to(const std::string& server) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(
      parse_unsigned(server.substr(server.rfind(':') + 1), "port", 1, 65535)));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    fail_errno(errno, "the fake API server");
  }
  return socket;
}

// The head that waits to be read, and stays so; "" if the client has gone.
std::string peek_head(int socket) {
  std::string head(kHead, 0);
  for (;;) {
    const ssize_t got = ::recv(socket, head.data(), head.size(), MSG_PEEK);
    if (got <= 0) return "";
    const size_t end = head.substr(0, static_cast<size_t>(got)).find("\r\n\r\n");
    if (end != std::string::npos) return head.substr(0, end + 4);
    ::usleep(1000);  // the rest comes at once
  }
}

}  // namespace

FakeCluster::FakeCluster(std::string root, std::vector<FakeApi::Kind> more)
    : api_(std::move(more)),
      root_(std::move(root)),
      listener_(listen_anywhere(port_)),
      thread_([this] { accept(); }) {}

FakeCluster::~FakeCluster() {
  over_.cancel();
  thread_.join();
  for (Connection& connection : connections_) {
    ::shutdown(connection.socket.get(), SHUT_RDWR);
    connection.thread.join();
  }
}

Config FakeCluster::config() const {
  Config config = api_.config();
  config.server = fmt::format("http://127.0.0.1:{}", port_);
  return config;
}

void FakeCluster::set_exec(std::function<Exec(std::vector<std::string>&)> rule) {
  const std::lock_guard lock(mutex_);
  rule_ = std::move(rule);
}

void FakeCluster::cut(int every, size_t after) {
  const std::lock_guard lock(mutex_);
  cut_every_ = every;
  cut_after_ = after;
}

void FakeCluster::accept() {
  for (;;) {
    std::array<pollfd, 2> fds{{{listener_.get(), POLLIN, 0}, {over_.fd(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    Connection& added = connections_.emplace_back(Connection{std::move(socket), {}});
    added.thread = std::thread([this, raw = added.socket.get()] { serve(raw); });
  }
}

void FakeCluster::serve(int socket) {
  try {
    const std::string head = peek_head(socket);
    const std::string target = head.substr(0, head.find("\r\n"));
    if (target.find("/exec?") == std::string::npos) {
      pass_on(socket);
    } else {
      std::string taken(head.size(), 0);
      if (recv_exactly(socket, std::as_writable_bytes(std::span(taken)))) exec(socket, taken);
    }
  } catch (const Error&) {  // the client has gone
  }
  ::shutdown(socket, SHUT_RDWR);
}

void FakeCluster::pass_on(int socket) {
  std::optional<size_t> left;
  {
    const std::lock_guard lock(mutex_);
    if (cut_every_ > 0 && ++passed_ % cut_every_ == 0) left = cut_after_;
  }
  const Fd server = connect_to(api_.config().server);
  std::array<std::byte, 16384> piece;
  for (;;) {
    std::array<pollfd, 2> fds{{{socket, POLLIN, 0}, {server.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    for (const int from : {0, 1}) {
      if (fds[static_cast<size_t>(from)].revents == 0) continue;
      size_t got = recv_some(from == 0 ? socket : server.get(), piece).value_or(0);
      if (got == 0) return;
      if (from == 1 && left) got = std::min(got, *left);
      const std::string_view bytes(reinterpret_cast<const char*>(piece.data()), got);
      if (!send_all(from == 0 ? server.get() : socket, bytes)) return;
      if (from == 1 && left && (*left -= got) == 0) return;
    }
  }
}

void FakeCluster::exec(int socket, const std::string& head) {
  ++execs_;
  const size_t question = head.find('?');
  std::vector<std::string> words;
  for (const std::string& pair :
       split(head.substr(question + 1, head.find(' ', question) - question - 1), '&')) {
    if (!pair.starts_with("command=")) continue;
    words.push_back(decoded(pair.substr(8)));
    if (words.back().starts_with("/adaptdl")) words.back() = root_ + words.back().substr(8);
  }
  Exec what = Exec::run;
  {
    const std::lock_guard lock(mutex_);
    if (rule_) what = rule_(words);
  }
  if (what == Exec::refused) {
    send_all(socket, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    return;
  }
  FakeExec session(socket, head);
  if (what == Exec::hung) return session.hang();
  session.run(words, what == Exec::dropped);
}

}  // namespace adaptdl::kube
