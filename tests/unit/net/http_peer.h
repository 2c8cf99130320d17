#pragma once

// A client that says exactly what a test tells it, byte by byte, over 127.0.0.1.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/number.h"
#include "core/base/poll.h"
#include "core/net/socket.h"

namespace adaptdl {

class HttpPeer {
 public:
  explicit HttpPeer(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  bool send(std::string_view bytes) { return send_all(fd_.get(), bytes); }
  void close() { fd_.reset(); }

  struct Answer {
    int status = 0;
    std::string head, body;
  };

  // The next answer, of the length that it says; nothing if the server closes, or says nothing for
  // `patience`. `has_body` is false after HEAD.
  std::optional<Answer> receive(bool has_body = true, Seconds patience = Seconds(20)) {
    const TimePoint deadline = after(patience);
    size_t end = 0;
    while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
      if (!more(deadline)) return std::nullopt;
    }
    Answer answer;
    answer.head = input_.substr(0, end + 4);
    answer.status = static_cast<int>(parse_int(answer.head.substr(9, 3), "status"));
    size_t length = 0;
    const size_t at = answer.head.find("Content-Length: ");
    if (at != std::string::npos && has_body) {
      length = parse_unsigned(answer.head.substr(at + 16, answer.head.find('\r', at) - at - 16),
                              "Content-Length");
    }
    while (input_.size() < end + 4 + length) {
      if (!more(deadline)) return std::nullopt;
    }
    answer.body = input_.substr(end + 4, length);
    input_.erase(0, end + 4 + length);
    return answer;
  }

  // Whether the server closes within `patience`, with nothing more said.
  bool closes(Seconds patience = Seconds(20)) {
    const bool said_more = more(after(patience));
    return !said_more && at_end_;
  }

 private:
  static TimePoint after(Seconds patience) {
    return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(patience);
  }

  bool more(TimePoint deadline) {
    std::byte piece[4096];
    if (!wait_ready(fd_.get(), POLLIN, deadline)) return false;
    const auto size = recv_some(fd_.get(), piece);
    at_end_ = size == 0;
    if (!size || *size == 0) return false;
    input_.append(reinterpret_cast<const char*>(piece), *size);
    return true;
  }

  Fd fd_;
  bool connected_ = false, at_end_ = false;
  std::string input_;
};

}  // namespace adaptdl
