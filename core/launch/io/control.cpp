#include "core/launch/io/control.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/formats/json.h"
#include "core/net/socket.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMostAtOnce = 1u << 20;  // bytes read from a client in one turn
constexpr size_t kMaxClients = 16;
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kLockPatience{500};

}  // namespace

std::optional<Fd> lock_control_socket(const std::string& path) {
  return try_lock(path + ".lock");
}

ControlServer::ControlServer(std::string path, Handler handler, size_t max_request)
    : path_(std::move(path)), handler_(std::move(handler)), max_request_(max_request) {
  make_directories(parent_directory(path_), 0700);
  // `adaptdl ls` holds the lock briefly while it checks a dead run.
  const TimePoint deadline = Monotonic::now() + kLockPatience;
  std::optional<Fd> lock;
  while (!(lock = lock_control_socket(path_))) {
    if (Monotonic::now() >= deadline) {
      fail("{}: another run of this name is live; give this one another --name", path_);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  lock_ = std::move(*lock);
  listener_ = listen_unix(path_);
  set_nonblocking(listener_.get());
}

ControlServer::~ControlServer() {
  ::unlink(path_.c_str());
}

void ControlServer::add_waits(std::vector<pollfd>& waits) const {
  if (clients_.size() < kMaxClients) waits.push_back({listener_.get(), POLLIN, 0});
  for (const Client& client : clients_) waits.push_back({client.socket.get(), POLLIN, 0});
}

TimePoint ControlServer::deadline() const {
  TimePoint deadline = TimePoint::max();
  for (const Client& client : clients_) deadline = std::min(deadline, client.deadline);
  return deadline;
}

void ControlServer::serve() {
  while (clients_.size() < kMaxClients) {
    std::optional<Fd> socket = accept_same_user(listener_.get());
    if (!socket) break;
    set_nonblocking(socket->get());
    clients_.push_back({std::move(*socket), "", 0, Monotonic::now() + kPatience});
  }
  std::erase_if(clients_, [this](Client& client) {
    try {
      return serve(client);
    } catch (const Error&) {  // a broken connection affects only that client
      return true;
    }
  });
}

bool ControlServer::serve(Client& client) {
  std::byte chunk[16384];
  for (size_t taken = 0; taken < kMostAtOnce;) {
    const std::optional<size_t> got = recv_some(client.socket.get(), chunk);
    if (!got) break;
    if (*got == 0) return true;
    taken += *got;
    const std::string_view text(reinterpret_cast<const char*>(chunk), *got);
    const size_t end = text.find('\n');
    // Read the rest of an overlong request, too: a client that is still sending reads no answer.
    client.size += std::min(end, text.size());
    if (client.size <= max_request_) client.received.append(text.substr(0, end));
    if (end != std::string_view::npos) {
      // An answer fits into a socket's buffer. A client that does not accept even that gets no
      // more.
      const std::string reply = answer(client) + "\n";
      [[maybe_unused]] const ssize_t sent =
          ::send(client.socket.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      return true;
    }
  }
  return Monotonic::now() >= client.deadline;
}

std::string ControlServer::answer(const Client& client) {
  Json reply;
  try {
    if (client.size > max_request_) {
      fail("the request is longer than {} KiB; keep long lists and texts in files",
           max_request_ >> 10);
    }
    reply = handler_(parse_json(client.received, "request"));
    reply["ok"] = true;
  } catch (const Error& error) {
    reply = {{"ok", false}, {"error", error.what()}};
  }
  return dump_json(reply);
}

}  // namespace adaptdl::launch
