#pragma once

// The run's side of its control socket (client.h says what is spoken there). Part of an event loop:
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

  // Listens at `path` (0600, this user only), whose folder it makes (0700); takes over what a dead
  // process left there. Throws Error if a living one has it.
  ControlServer(std::string path, Handler handler);
  ~ControlServer();  // unlinks the socket
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // What to wait for; then serve() when any of it is ready, or at deadline().
  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;
  void serve();

 private:
  struct Client {
    Fd socket;
    std::string received;
    TimePoint deadline;
  };

  // True: done with it.
  bool serve(Client& client);
  std::string answer(const std::string& line);

  const std::string path_;
  const Handler handler_;
  Fd lock_;
  Fd listener_;
  std::vector<Client> clients_;
};

// Who holds the lock of a control socket (a file beside it, which stays) may replace or remove it.
// Nothing if another process holds it.
std::optional<Fd> lock_control_socket(const std::string& path);

}  // namespace adaptdl::launch
