#pragma once

// A port of 127.0.0.1 where connections are refused for as long as the object lives: it is bound,
// so that nothing comes to listen there but what a test has told the port (listen_tcp()).

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/net/tcp.h"

namespace adaptdl::testing {

class ClosedPort {
 public:
  ClosedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    // Two such sockets may be bound to a port while one of them listens.
    const int on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail_errno(errno, "cannot bind a port");
    port = port_of(socket_.get());
  }

  uint16_t port;

 private:
  Fd socket_;
};

}  // namespace adaptdl::testing
