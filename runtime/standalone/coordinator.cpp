#include "runtime/standalone/coordinator.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/poll.h"
#include "core/net/socket.h"
#include "runtime/comm/cpu/link.h"
#include "runtime/standalone/resolve.h"

namespace adaptdl::standalone {
namespace {

constexpr size_t kMostConnections = 4096;
constexpr uint32_t kLongestJoin = 64u << 10;
constexpr std::chrono::seconds kJoinPatience{10}, kFarewell{10};

Fd bound(const Address& address) {
  Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.length) != 0 ||
      ::listen(socket.get(), 128) != 0) {
    return {};
  }
  return socket;
}

}  // namespace

Coordinator::Coordinator(const Place& place, const std::string& purpose)
    : where_(fmt::format("{}:{}", place.master_addr, place.master_port)),
      key_(meeting_key(place)),
      roster_(place, purpose, to_hex(random_bytes(32)), Monotonic::now()) {
  listen(place);
  auto [ours, theirs] = socket_pair();
  connections_.push_back(
      {launch::Channel(std::move(ours)), -1, Monotonic::now() + kJoinPatience, false});
  own_end_ = std::move(theirs);
  thread_ = std::thread([this] { run(); });
}

Coordinator::~Coordinator() {
  stop_.cancel();
  thread_.join();
}

void Coordinator::listen(const Place& place) {
  const std::vector<Address> resolved = resolve(place.master_addr, place.master_port);
  const std::vector<Address> addresses = where_to_listen(place.master_addr, resolved);
  if (addresses.front().is_any() && !resolved.front().is_any()) {
    log_info(
        "{} is {} on this host, where no other reaches it: rank 0 listens at all its addresses",
        place.master_addr, resolved.front().text());
  }
  int problem = 0;
  for (const Address& address : addresses) {
    listener_ = bound(address);
    if (listener_) {
      if (!address.is_any()) address_ = address.text();
      return;
    }
    problem = errno;
    if (problem != EADDRNOTAVAIL) break;
  }
  // The name of a service, or of a router before this host.
  if (problem == EADDRNOTAVAIL) {
    listener_ = bound(any_address(addresses.front()));
    if (listener_) return;
    problem = errno;
  }
  fail_errno(problem, fmt::format("rank 0 cannot listen for the other replicas at {} "
                                  "(ADAPTDL_MASTER_ADDR, ADAPTDL_MASTER_PORT)",
                                  where_));
}

void Coordinator::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFarewell, [this] { return others_ended_; });
}

void Coordinator::run() {
  pthread_setname_np(pthread_self(), "coordinator");
  for (;;) {
    std::vector<pollfd> waits{{stop_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    TimePoint deadline = roster_.deadline();
    if (listener_) deadline = std::min(deadline, waiting_.next());
    for (const Connection& connection : connections_) {
      waits.push_back(connection.channel.wait());
      if (connection.member < 0) deadline = std::min(deadline, connection.deadline);
    }
    poll_until(waits, deadline);
    if (waits[0].revents != 0) return;
    accept_all();
    const TimePoint now = Monotonic::now();
    for (auto at = connections_.begin(); at != connections_.end();) {
      at = serve(*at) ? std::next(at) : connections_.erase(at);
    }
    post(roster_.elapsed(now));
    // Those who have lost rank 0 find out by this.
    if (roster_.first_lost()) connections_.clear();
    if (roster_.missing().empty()) listener_ = Fd();
    if (listener_ && waiting_.due(now)) tell_who_is_missing();
    {
      const std::lock_guard lock(mutex_);
      others_ended_ = roster_.all_but_first_ended();
    }
    changed_.notify_all();
  }
}

void Coordinator::tell_who_is_missing() {
  const std::vector<int> missing = roster_.missing();
  log_info("waiting for {} of {} replicas at {}: rank {}", missing.size(), roster_.replicas(),
           where_, fmt::join(missing, ", "));
}

void Coordinator::accept_all() {
  while (listener_ && connections_.size() < kMostConnections) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    comm::tune_tcp(socket.get());
    Stream stream(std::move(socket), key_, TlsSide::server);
    connections_.push_back({launch::Channel(std::move(stream), kLongestJoin), -1,
                            Monotonic::now() + kJoinPatience, false});
  }
}

bool Coordinator::serve(Connection& connection) {
  bool open = false;
  try {
    open = connection.channel.drain([&](const nlohmann::json& message) {
      if (connection.closing) return;
      if (connection.member < 0) return admit(connection, message);
      post(roster_.received(connection.member, message, Monotonic::now()));
    });
    open = connection.channel.flush() && open;
  } catch (const Error& error) {
    log_warning("a replica's connection to rank 0 broke: {}", error.what());
    open = false;
  } catch (const nlohmann::json::exception& error) {
    log_warning("a replica sent rank 0 what it does not understand: {}", error.what());
    open = false;
  }
  if (connection.closing && !connection.channel.wants_write()) open = false;
  if (connection.member < 0 && Monotonic::now() >= connection.deadline) open = false;
  if (!open && connection.member >= 0) post(roster_.closed(connection.member));
  return open;
}

void Coordinator::admit(Connection& connection, const nlohmann::json& join) {
  const Roster::Admission admission = roster_.admit(join);
  connection.member = admission.rank;
  connection.closing = admission.rank < 0;
  if (connection.closing) {
    log_warning("rank 0 at {} refuses a replica: {}", where_,
                admission.answer.at("reason").get<std::string>());
  }
  connection.channel.set_longest(launch::kMaxFrame);
  connection.channel.post(admission.answer);
}

void Coordinator::post(const Roster::Outbox& messages) {
  for (const auto& [member, message] : messages) {
    for (Connection& connection : connections_) {
      // One that takes nothing more is found closed in its turn.
      if (connection.member == member) connection.channel.post(message);
    }
  }
}

}  // namespace adaptdl::standalone
