#pragma once

// The meeting point of replicas that nobody has launched: a thread of rank 0 that listens where the
// others look for it, and tells them what Roster decides.

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/fd.h"
#include "core/launch/io/protocol.h"
#include "runtime/standalone/roster.h"
#include "runtime/standalone/waiting.h"

namespace adaptdl::standalone {

class Coordinator {
 public:
  // Listens at place.master_addr if that is an address of this host by which others reach it (or
  // loopback, if it says so), else on all; and at place.master_port. Throws Error if it cannot.
  // `purpose`: replicas of another one are refused.
  Coordinator(const Place& place, const std::string& purpose);
  ~Coordinator();  // closes all connections
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  Fd take_own_end() { return std::move(own_end_); }  // rank 0's own connection
  // The numeric address it listens at; empty if at all of this host.
  const std::string& address() const { return address_; }

  // Waits until the other replicas have ended, as far as they must still hear of this one: ten
  // seconds at most. Rank 0 calls it before it ends.
  void finish();

 private:
  struct Connection {
    launch::Channel channel;
    int member = -1;     // -1: it has not joined
    TimePoint deadline;  // to join
    bool closing = false;
  };

  void listen(const Place& place);
  void run();
  void accept_all();
  bool serve(Connection& connection);  // false: it is over
  void admit(Connection& connection, const nlohmann::json& join);
  void post(const Roster::Outbox& messages);
  void tell_who_is_missing();

  const std::string where_;  // HOST:PORT, for people
  std::string address_;
  const std::optional<TlsKey> key_;
  Fd listener_, own_end_;
  Cancellation stop_;
  Roster roster_;  // of the thread, as the rest up to mutex_
  std::list<Connection> connections_;
  Waiting waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool others_ended_ = false;
  std::thread thread_;
};

}  // namespace adaptdl::standalone
