#pragma once

// The inside of Listener: accepts, challenges, and hands proven connections to the connect() that
// waits for them. Everything is done by one thread with non-blocking sockets; state is behind one
// mutex.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/cpu/endpoint.h"
#include "runtime/comm/cpu/wire.h"

namespace adaptdl::comm {

class Listener::Impl {
 public:
  Impl(std::string secret, ListenerOptions options);
  ~Impl();

  const Endpoint& endpoint() const { return endpoint_; }
  const std::string& secret() const { return secret_; }

  struct Arrival {
    Hello hello;
    Fd socket;
  };
  // What one connect() waits for.
  struct Expected {
    uint32_t rank = 0, size = 0;
    Fd event;  // readable when something has arrived
    std::vector<Arrival> arrived;
  };

  // From now on, connections for `generation` are handed over, those for older ones refused (an
  // older expect() that is still there keeps its own). Throws Error unless the generation is newer
  // than all before.
  std::shared_ptr<Expected> expect(uint64_t generation, uint32_t rank, uint32_t size);
  std::vector<Arrival> take(Expected& expected);
  void forget(uint64_t generation);  // no more of them are handed over

 private:
  struct Connection {
    Fd socket;
    ServerHandshake handshake;
    std::string received;
    TimePoint deadline;
    bool parked = false;  // proven, for a generation that nobody here has asked for yet
  };
  using Connections = std::map<uint64_t, Connection>;  // by a number that is never reused

  void run();
  void accept_from(int socket);
  void watch(int fd, uint32_t events, uint64_t id);
  void advance(Connections::iterator at);  // reads; may end the connection
  void place(Connections::iterator at);    // a proven one: hand over, park or refuse
  void drop_late(TimePoint now);
  int milliseconds_to_deadline(TimePoint now) const;

  const std::string secret_;
  const ListenerOptions options_;
  Endpoint endpoint_;
  Fd unix_, tcp_, epoll_, stop_;

  std::mutex mutex_;  // guards what follows
  Connections connections_;
  std::map<uint64_t, std::shared_ptr<Expected>> expected_;
  uint64_t newest_ = 0;
  bool any_ = false;  // whether newest_ means something
  uint64_t next_id_ = 16;

  std::thread thread_;
};

}  // namespace adaptdl::comm
