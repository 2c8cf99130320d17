#pragma once

// Forwards local ports to pods.

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/fd.h"
#include "core/kube/client.h"

namespace adaptdl::kube {

// Listens, and forwards each connection to a pod's port through the API server (WebSocket
// v4.channel.k8s.io). Uses one thread for the listener and one for each connection. The protocol
// has no half-close: after a local program closes its sending side, the pod's answers are still
// forwarded until the pod is silent for two seconds.
class PortForward {
 public:
  // `port` 0: any free port. `address`: an address or a name of this machine. `client` must outlive
  // this object. Throws Error if it cannot listen there. An unreachable pod is logged at the next
  // connection.
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
