#pragma once

// A WebSocket client (RFC 6455) over libcurl.

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
  std::string data;  // whole; of a close, the reason
  int code = 0;      // of a close; 1006: the connection ended without one
};

// The server answered something else than 101, whose body is not known.
class WebSocketRefused : public HttpError {
 public:
  WebSocketRefused(const std::string& message, int status)
      : HttpError(message, true), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

// One thread. Nothing here waits but the constructor: poll(2) fd() for reading, and for writing
// while has_unsent(). Pings of the server are answered by receive().
class WebSocket {
 public:
  // Throws WebSocketRefused, or HttpError if there is no answer.
  explicit WebSocket(const WebSocketOptions& options);
  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  const std::string& protocol() const { return protocol_; }  // the server's choice; "": none
  int fd() const;

  // The next message that is there whole; call until there is none before waiting. After a close
  // there are no more. Throws HttpError if the connection breaks or a message is larger than 16
  // MiB.
  std::optional<WebSocketMessage> receive();

  // Binary messages, and pings, in this order; what cannot be sent now is kept for flush().
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
  bool ended_ = false;
};

}  // namespace adaptdl
