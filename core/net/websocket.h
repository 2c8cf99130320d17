#pragma once

// A WebSocket client (RFC 6455) over libcurl.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/net/http.h"

namespace adaptdl {

struct WebSocketOptions {
  HttpClientOptions connection;
  std::string url;  // http:// or https://
  HttpHeaders headers;
  std::vector<std::string> protocols;  // subprotocols, the best first
  Seconds connect_timeout{30.0};       // for name, connection, TLS and the server's answer; > 0
};

struct WebSocketMessage {
  enum class Type { data, close };
  Type type = Type::data;
  std::string data;  // the whole message; of a close, the reason
  int code = 0;      // of a close; 1006: the connection ended without one
};

// The server answered with a status other than 101; the body is not known.
class WebSocketRefused : public HttpError {
 public:
  WebSocketRefused(const std::string& message, int status)
      : HttpError(message, true), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

// One thread. Only the constructor blocks: poll(2) fd() for reading, and for writing while
// has_unsent(). receive() answers the server's pings.
class WebSocket {
 public:
  // Throws WebSocketRefused, or HttpError if there is no answer.
  explicit WebSocket(const WebSocketOptions& options);
  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  const std::string& protocol() const { return protocol_; }  // the server's choice; "": none
  int fd() const;

  // The next complete message; call until it returns nothing before waiting. After a close it
  // returns nothing. Throws HttpError if the connection breaks or a message is larger than 16 MiB.
  std::optional<WebSocketMessage> receive();
  // That receive() has read: the answer to a ping is one, and no message.
  uint64_t frames() const { return frames_; }

  // Queue binary messages and pings in order; what cannot be sent now waits for flush().
  void send(std::string_view data);
  void ping();
  void close();
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }

 private:
  struct Handle;
  struct Frame {
    unsigned flags;
    std::string data;
    size_t sent = 0;
  };
  void queue(unsigned flags, std::string_view data);

  std::unique_ptr<Handle> handle_;
  std::string protocol_, part_;
  std::deque<Frame> unsent_;
  uint64_t frames_ = 0;
  bool ended_ = false;
};

}  // namespace adaptdl
