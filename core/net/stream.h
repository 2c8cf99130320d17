#pragma once

// A connected stream socket that never blocks: plain, or with TLS.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/net/tls.h"

namespace adaptdl {

// One thread may send while another receives.
class Stream {
 public:
  Stream() = default;  // none
  explicit Stream(Fd socket) : socket_(std::move(socket)) {}
  // With TLS if there is a key. The handshake is still to be made: by shake_hands() or, on the
  // server, by the first recv().
  Stream(Fd socket, const std::optional<TlsKey>& key, TlsSide side);
  // With TLS as a client of a server that has a certificate.
  Stream(Fd socket, const TlsAuthorities& authorities);

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.get(); }
  bool encrypted() const { return tls_ != nullptr; }

  // Waits for the handshake; a plain stream has none. Throws Error, also at the deadline.
  void shake_hands(TimePoint deadline);
  // As a step of a loop: wants() says what to poll for if `later`.
  IoState shake_hands();
  short wants() const;

  // `moved`: bytes, at least 1 if done. No SIGPIPE. After `later`, send the same bytes again when
  // the socket is writable, and receive when it is readable: then, not before, no byte is waiting
  // in this object.
  IoState send(std::string_view data, size_t& moved) { return send(data, {}, moved); }
  IoState send(std::string_view first, std::string_view second, size_t& moved);  // in this order
  IoState recv(std::span<std::byte> data, size_t& moved);

  // Why it is closed, if the peer did not just end it or die: what was received was not what the
  // peer sent, or the peer has another key or certificate. "" or the end of a sentence.
  std::string problem() const;

 private:
  Fd socket_;
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace adaptdl
