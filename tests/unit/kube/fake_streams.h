#pragma once

// The WebSockets of an API server's pods, for tests: exec and portforward.
//
// exec runs `command`: "cat" gives its input back, and ends by 0 when that ends; "cat N" after N
// bytes; "fail N" says something on both outputs and ends by N; "hang" says nothing; "mute" does
// not even answer pings; "flood" writes for ever; "drop" breaks the connection; "missing" cannot be
// started. Messages come in fragments, with pings between. portforward gives back what it gets, and
// ends after "bye", or after 6 MiB for "much"; port 1 tells an error.
// A path with /secret/ is refused: 403, to plain requests with a Status.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <string>
#include <thread>

#include "core/kube/config.h"

namespace adaptdl::kube {

class FakeStreams {
 public:
  // The subprotocol that it speaks: "v5.channel.k8s.io", "v4.channel.k8s.io", or "" for none.
  explicit FakeStreams(std::string protocol);
  ~FakeStreams();  // the clients must have gone

  Config config() const;

 private:
  void accept();
  void serve(boost::asio::ip::tcp::socket socket);

  const std::string protocol_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> over_ = false;
  std::list<std::thread> threads_;
  std::thread thread_;
};

}  // namespace adaptdl::kube
