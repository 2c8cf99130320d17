#pragma once

// The implementation of Listener: accepts connections, challenges them, and hands authenticated
// ones to the connect() that waits for them. One thread does this with non-blocking sockets; one
// mutex guards the state.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/net/stream.h"
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
  // A connection with another host, whose listener speaks TLS if this one does.
  Stream to_host(Fd socket, TlsSide side) const;

  const std::vector<std::string>& own_addresses() const { return own_addresses_; }

  struct Arrival {
    Hello hello;
    Stream stream;
  };
  struct Place {
    uint32_t rank = 0, size = 0;
    uint16_t links = 1;
    bool operator==(const Place&) const = default;
  };
  // What one connect() waits for.
  struct Expected {
    Place place;
    Fd event;  // readable when something has arrived
    std::vector<Arrival> arrived;
  };

  // From now on, hands over connections for `generation` and refuses older ones (except those of an
  // older expect() that is still active). Throws Aborted unless the generation is newer than all
  // before.
  std::shared_ptr<Expected> expect(uint64_t generation, const Place& mine);
  std::vector<Arrival> take(Expected& expected);
  void forget(uint64_t generation);  // stops handing over its connections

 private:
  struct Connection {
    Stream stream;
    ServerHandshake handshake;
    std::string received;
    TimePoint deadline;
    bool parked = false;  // proven, for a generation not yet requested here
  };
  using Connections = std::map<uint64_t, Connection>;  // by a number that is never reused

  void run();
  void accept_from(int socket);
  void watch(int fd, uint32_t events, uint64_t id);
  void advance(Connections::iterator at);  // reads; may close the connection
  void place(Connections::iterator at);    // hands over, parks or refuses a proven connection
  void drop_late(TimePoint now);
  int milliseconds_to_deadline(TimePoint now) const;

  const std::string secret_;
  const ListenerOptions options_;
  std::optional<TlsKey> tls_;
  Endpoint endpoint_;
  std::vector<std::string> own_addresses_;
  Fd unix_, tcp_, epoll_, stop_;

  std::mutex mutex_;  // guards the members below, up to next_id_
  Connections connections_;
  std::map<uint64_t, std::shared_ptr<Expected>> expected_;
  uint64_t newest_ = 0;
  Place newest_place_;
  bool any_ = false;  // newest_ is set
  uint64_t next_id_ = 16;

  std::thread thread_;
};

}  // namespace adaptdl::comm
