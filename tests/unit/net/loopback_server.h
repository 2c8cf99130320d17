#pragma once

// An HTTP/1.1 server for tests, on a free port of 127.0.0.1: one thread, one request at a time.

#include <atomic>
#include <functional>
#include <openssl/ssl.h>
#include <string>
#include <thread>

#include "core/base/fd.h"

namespace adaptdl {

class LoopbackServer {
 public:
  // `answer` gets the whole request and returns the whole response; after a response that lacks
  // "keep-alive" the connection is closed. With `tls`, speaks TLS by a certificate of its own for
  // `localhost`, which certificate() gives as PEM.
  explicit LoopbackServer(std::function<std::string(const std::string&)> answer, bool tls = false);
  ~LoopbackServer();

  std::string url(const std::string& path) const;
  const std::string& certificate() const { return certificate_; }
  int connections() const { return connections_; }
  // Connections of clients that showed a certificate, whoever signed it.
  int certified() const { return certified_; }

 private:
  void use_tls();
  void serve();
  void talk(int fd);

  std::function<std::string(const std::string&)> answer_;
  Fd listener_, stop_reader_, stop_writer_;
  int port_ = 0;
  std::atomic<int> connections_ = 0, certified_ = 0;
  SSL_CTX* tls_ = nullptr;
  std::string certificate_;
  std::thread thread_;
};

}  // namespace adaptdl
