#pragma once

// TLS 1.3 (RFC 8446) between two processes that share a key, without certificates: each side proves
// that it knows the key, and what follows is encrypted and authenticated with keys that an
// ephemeral Diffie-Hellman exchange makes (psk_dhe_ke), so whoever learns the shared key later
// cannot read it. And as the client of a server that has a certificate.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace adaptdl {

struct TlsContext;

struct TlsKeyOptions {
  // Bytes that are sent before the sender takes a new key: far fewer than AES-GCM may encrypt with
  // one (RFC 8446 section 5.5: 2^24.5 records).
  uint64_t rekey_bytes = uint64_t{1} << 36;
};

// A shared key, for any number of connections. Immutable; copies share it.
class TlsKey {
 public:
  // `key`: 16 to 64 bytes, secret, random or derived from something that is. Throws Error.
  explicit TlsKey(std::span<const uint8_t> key, TlsKeyOptions options = {});

 private:
  friend class TlsSession;
  struct Context;
  std::shared_ptr<Context> context_;
};

// Which servers a client believes. Immutable; copies share it.
class TlsAuthorities {
 public:
  // `certificates`: PEM, one or more, of which one must have signed the server's; `host`: the name
  // or address that the server's must be for. Throws Error.
  TlsAuthorities(const std::string& certificates, const std::string& host);

 private:
  friend class TlsSession;
  std::shared_ptr<const TlsContext> context_;
  std::string host_;
};

enum class TlsSide { client, server };

enum class IoState {
  done,    // or some bytes were moved
  later,   // call again, with the same data, when the socket is ready for wants()
  closed,  // the peer is gone, or problem()
};

// One end of a connection. Borrows a connected stream socket, which may block: no function waits.
// One thread may send while another receives.
class TlsSession {
 public:
  TlsSession(const TlsKey& key, TlsSide side, int socket);
  TlsSession(const TlsAuthorities& authorities, int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // The client must call it until it is done. A server's recv() does it, too.
  IoState shake_hands();

  // Sends `first`, then `second`; one of them may be empty. If done, `sent` is how many bytes of
  // both the kernel has taken. If later, some may be encrypted already, hence the same next time.
  IoState send(std::string_view first, std::string_view second, size_t& sent);
  IoState recv(std::span<std::byte> data, size_t& got);

  short wants() const;  // POLLIN or POLLOUT: what shake_hands() waits for
  // Why it is closed, if the peer did not just end the connection: "" or the end of a sentence.
  std::string problem() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl
