#pragma once

// The run's side of its control socket (client.h describes the protocol). Part of an event loop:
// never blocks.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl::launch {

// One thread.
class ControlServer {
 public:
  // Answers one request. An Error it throws becomes the refusal.
  using Handler = std::function<nlohmann::json(const nlohmann::json& request)>;

  // Listens at `path` (0600, this user only), creates its folder (0700), and takes over a dead
  // process's socket. Throws Error if a living process has the socket. Requests of more than
  // `max_request` bytes are refused.
  ControlServer(std::string path, Handler handler, size_t max_request = 64u << 10);
  ~ControlServer();  // unlinks the socket
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Add the descriptors to poll; then call serve() when one is ready, or at deadline().
  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;
  void serve();

 private:
  struct Client {
    Fd socket;
    std::string received;
    size_t size = 0;  // of its request so far; `received` is cut at the maximum
    TimePoint deadline;
  };

  // True: the client is finished.
  bool serve(Client& client);
  std::string answer(const Client& client);

  const std::string path_;
  const Handler handler_;
  const size_t max_request_;
  Fd lock_;
  Fd listener_;
  std::vector<Client> clients_;
};

// The lock of a control socket, a file beside it, which is never removed. Its holder may replace or
// remove the socket. Nothing if another process holds the lock.
std::optional<Fd> lock_control_socket(const std::string& path);

}  // namespace adaptdl::launch
