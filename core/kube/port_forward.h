#pragma once

// Ports of pods on this machine.

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/fd.h"
#include "core/kube/client.h"

namespace adaptdl::kube {

// Listens, and passes each connection on to a pod's port through the API server (WebSocket
// v4.channel.k8s.io). A thread for the listener and one for each connection. The protocol cannot
// pass on that one side has said its last: when a local program ends its sending, the pod's answers
// are still passed until it is silent for two seconds.
class PortForward {
 public:
  // `port` 0: any free one. `address`: one of this machine, or a name of it. `client` must outlive
  // it. Throws Error if it cannot listen there; that the pod cannot be reached is logged when
  // somebody connects.
  PortForward(Client& client, Resource pod, uint16_t pod_port, uint16_t port = 0,
              const std::string& address = "127.0.0.1");
  ~PortForward();  // ends all connections
  PortForward(const PortForward&) = delete;
  PortForward& operator=(const PortForward&) = delete;

  uint16_t port() const { return port_; }  // the one it listens on

 private:
  struct Connection {
    std::thread thread;
    bool over = false;
  };
  void listen();
  void serve(Fd socket);

  Client& client_;
  const Resource pod_;
  const uint16_t pod_port_;
  uint16_t port_ = 0;
  Fd listener_;
  Cancellation cancel_;
  std::mutex mutex_;  // of `over`
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace adaptdl::kube
