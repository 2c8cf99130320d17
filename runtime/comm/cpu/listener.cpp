#include "runtime/comm/cpu/listener.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/system.h"
#include "runtime/comm/cpu/link.h"

namespace adaptdl::comm {
namespace {

constexpr size_t kMinSecret = 16;
constexpr size_t kMaxUnproven = 256;  // when full, the oldest is dropped
constexpr size_t kMaxParked = 4096;
constexpr uint64_t kStopId = 0, kUnixId = 1, kTcpId = 2;

void signal_event(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

void send_verdict(Stream& stream, Status status, uint64_t generation) {
  const std::string bytes = encode(Verdict{status, generation});
  // The first bytes into an empty socket buffer: cannot block. The link itself reports a peer that
  // is gone.
  size_t sent;
  stream.send(bytes, sent);
}

}  // namespace

Listener::Listener(std::string secret, ListenerOptions options)
    : impl_(std::make_unique<Impl>(std::move(secret), std::move(options))) {}
Listener::~Listener() = default;
nlohmann::json Listener::endpoint() const {
  return to_json(impl_->endpoint());
}

Listener::Impl::Impl(std::string secret, ListenerOptions options)
    : secret_(std::move(secret)), options_(std::move(options)) {
  if (secret_.size() < kMinSecret) {
    fail("the secret of a run must have at least {} bytes, this has {}", kMinSecret,
         secret_.size());
  }
  endpoint_.host = options_.host.empty() ? host_identity() : options_.host;
  endpoint_.name = host_name();
  endpoint_.unix_name = "adaptdl-" + to_hex(random_bytes(16));
  unix_ = listen_abstract(endpoint_.unix_name);
  if (options_.tcp) {
    TcpAddress here{listening_address(options_.reach), 0, ""};
    tcp_ = listen_tcp(here, options_.reach.ports);
    for (const HostAddress& each : reached_at(options_.reach)) {
      endpoint_.tcp.push_back({each.address, here.port, each.interface});
    }
    own_addresses_ = adaptdl::own_addresses();
  }
  if (options_.encrypt) {
    tls_.emplace(hmac_sha256(bytes_of(secret_), bytes_of("adaptdl links between hosts")));
  }
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !stop_) fail_errno(errno, "cannot watch for connections");
  watch(stop_.get(), EPOLLIN, kStopId);
  watch(unix_.get(), EPOLLIN, kUnixId);
  if (tcp_) watch(tcp_.get(), EPOLLIN, kTcpId);
  thread_ = std::thread([this] { run(); });
}

Listener::Impl::~Impl() {
  signal_event(stop_.get());
  thread_.join();
}

void Listener::Impl::watch(int fd, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    fail_errno(errno, "cannot watch a connection");
  }
}

void Listener::Impl::run() {
  pthread_setname_np(pthread_self(), "comm-listen");
  for (;;) {
    int timeout;
    {
      std::lock_guard lock(mutex_);
      timeout = milliseconds_to_deadline(Monotonic::now());
    }
    epoll_event events[32];
    const int count = epoll_wait(epoll_.get(), events, 32, timeout);
    std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kStopId) return;
      if (id == kUnixId || id == kTcpId) {
        accept_from(id == kUnixId ? unix_.get() : tcp_.get());
      } else if (const auto at = connections_.find(id); at != connections_.end()) {
        advance(at);
      }
    }
    drop_late(Monotonic::now());
  }
}

void Listener::Impl::accept_from(int socket) {
  Fd accepted(accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted) {
    // Out of descriptors: the connection stays in the queue; sleep to avoid a busy loop.
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) usleep(10'000);
    return;
  }
  const auto unproven = [](const auto& item) { return !item.second.parked; };
  if (std::count_if(connections_.begin(), connections_.end(), unproven) >=
      static_cast<std::ptrdiff_t>(kMaxUnproven)) {
    connections_.erase(std::find_if(connections_.begin(), connections_.end(), unproven));
  }
  if (socket == tcp_.get()) tune_tcp(accepted.get());
  Nonce nonce;
  random_bytes(nonce);
  const auto span = std::chrono::duration_cast<Monotonic::duration>(
      Seconds(std::clamp(options_.handshake_timeout_s, 0.001, 3600.0)));
  const uint64_t id = next_id_++;
  watch(accepted.get(), EPOLLIN | EPOLLRDHUP, id);
  Stream stream = socket == tcp_.get() ? to_host(std::move(accepted), TlsSide::server)
                                       : Stream(std::move(accepted));
  connections_.emplace(
      id, Connection{std::move(stream), ServerHandshake(nonce), {}, Monotonic::now() + span});
}

Stream Listener::Impl::to_host(Fd socket, TlsSide side) const {
  return Stream(std::move(socket), tls_, side);
}

void Listener::Impl::advance(Connections::iterator at) {
  Connection& connection = at->second;
  if (connection.parked) {  // a peer sends nothing before the verdict: it is gone
    connections_.erase(at);
    return;
  }
  while (const size_t wanted = connection.handshake.wanted()) {
    char bytes[128];
    const size_t missing = wanted - connection.received.size();
    size_t moved = 0;
    const IoState heard = connection.stream.recv(
        std::as_writable_bytes(std::span(bytes, std::min(missing, sizeof bytes))), moved);
    if (heard == IoState::later) return;
    if (heard == IoState::closed) {
      connections_.erase(at);
      return;
    }
    connection.received.append(bytes, moved);
    if (connection.received.size() < wanted) continue;
    std::string reply;
    const auto state = connection.handshake.feed(secret_, bytes_of(connection.received), reply);
    connection.received.clear();
    moved = 0;
    if (!reply.empty()) connection.stream.send(reply, moved);
    if (state == ServerHandshake::State::refused || moved < reply.size()) {
      connections_.erase(at);
      return;
    }
  }
  place(at);
}

void Listener::Impl::place(Connections::iterator at) {
  Connection& connection = at->second;
  const Hello& hello = connection.handshake.hello();
  const auto found = expected_.find(hello.generation);
  if (found == expected_.end() && (!any_ || hello.generation > newest_)) {
    const auto parked = [](const auto& item) { return item.second.parked; };
    if (std::count_if(connections_.begin(), connections_.end(), parked) <
        static_cast<std::ptrdiff_t>(kMaxParked)) {
      connection.parked = true;
      return;
    }
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.stream.fd(), nullptr);
  // This process's in that generation, which may have all its connections already.
  std::optional<Place> place;
  if (found != expected_.end()) place = found->second->place;
  if (found == expected_.end() && hello.generation == newest_) place = newest_place_;
  if (place && *place != Place{hello.to, hello.size, hello.links}) {
    send_verdict(connection.stream, Status::wrong_place, newest_);
  } else if (found == expected_.end()) {
    send_verdict(connection.stream, Status::stale, newest_);
  } else {
    send_verdict(connection.stream, Status::ok, newest_);
    found->second->arrived.push_back({hello, std::move(connection.stream)});
    signal_event(found->second->event.get());
  }
  connections_.erase(at);
}

void Listener::Impl::drop_late(TimePoint now) {
  std::erase_if(connections_, [&](const auto& item) {
    return !item.second.parked && item.second.deadline <= now;
  });
}

int Listener::Impl::milliseconds_to_deadline(TimePoint now) const {
  int64_t least = -1;
  for (const auto& [id, connection] : connections_) {
    if (connection.parked) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(connection.deadline - now);
    const int64_t ms = std::max<int64_t>(left.count(), 0);
    if (least < 0 || ms < least) least = ms;
  }
  return static_cast<int>(least);
}

std::shared_ptr<Listener::Impl::Expected> Listener::Impl::expect(uint64_t generation,
                                                                 const Place& mine) {
  auto expected = std::make_shared<Expected>();
  expected->place = mine;
  expected->event = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!expected->event) fail_errno(errno, "cannot wait for connections");
  std::lock_guard lock(mutex_);
  if (any_ && generation <= newest_) {
    throw Aborted(
        fmt::format("generation {} is over: generation {} was requested", generation, newest_));
  }
  any_ = true;
  newest_ = generation;
  newest_place_ = expected->place;
  expected_[generation] = expected;
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto next = std::next(at);
    if (at->second.parked && at->second.handshake.hello().generation <= generation) place(at);
    at = next;
  }
  return expected;
}

std::vector<Listener::Impl::Arrival> Listener::Impl::take(Expected& expected) {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(expected.event.get(), &count, sizeof count);
  std::lock_guard lock(mutex_);
  return std::exchange(expected.arrived, {});
}

void Listener::Impl::forget(uint64_t generation) {
  std::lock_guard lock(mutex_);
  expected_.erase(generation);
}

}  // namespace adaptdl::comm
