#pragma once

// An HTTP/1.1 server: for the supervisor's long polls, webhooks, metrics, pages. Supports kept
// connections, HEAD, chunked request bodies, Expect: 100-continue, TLS. An answer's body is a
// string, sent with its length.
//
// Each server has one thread. It calls handlers and all other functions there, one at a time, so
// they need no locks among themselves; while one runs, no other request is served. A handler that
// cannot answer at once keeps the reply and answers later, from any thread: a held request costs a
// connection and a few kilobytes, but no thread.
//
// Before a client has shown who it is, it can use at most one connection at a time for which the
// server keeps max_head bytes: `admit` refuses a request before its body is read, and with all
// connections in use a new client displaces the one that has been silent for longest.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/net/http_message.h"

namespace adaptdl {

// PEM texts. The certificate comes first in its chain; the key has no password.
struct HttpTls {
  std::string certificate;
  std::string key;
  // Of which one must have signed a client's own; none: a client needs no certificate. A text
  // without certificates is an error.
  std::optional<std::string> client_authorities = {};
};

struct HttpServerRequest {
  std::string method;   // as sent: "GET"
  std::string path;     // starts with '/'; without host and query; not percent-decoded
  std::string query;    // what follows the first '?'; not decoded
  HttpHeaders headers;  // names in lower case, in the client's order
  std::string body;     // unchunked
  std::string client;   // the client's numeric address, without port; "": unknown

  std::optional<std::string> header(std::string_view lower_case_name) const {
    return find_header(headers, lower_case_name);
  }
  // The first value of NAME in the query, not decoded. "" for a name without a value.
  std::optional<std::string> parameter(std::string_view name) const;
};

// Decides on a request with a body when its head has been read: an answer refuses the request, and
// the connection ends without reading the body. Called on the server's thread; errors as in a
// HttpHandler.
using HttpAdmission = std::function<std::optional<HttpResponse>(const HttpServerRequest& head)>;

struct HttpServerOptions {
  // A numeric address of this machine; "*": all of IPv4 and, if the system has it, IPv6.
  std::string address = "127.0.0.1";
  uint16_t port = 0;            // 0: any free one
  std::optional<HttpTls> tls;   // none: plain HTTP
  size_t max_head = 16u << 10;  // bytes of request line and headers: more are answered 431
  size_t max_body = 1u << 20;   // bytes of a request's body: more are answered 413
  HttpAdmission admit = {};     // none: all bodies up to max_body are read
  // At this number, or without a free descriptor, a new client displaces the connection that has
  // been silent for longest: one on which no request is handled. If there is none, further clients
  // wait. Each connection needs a descriptor: raise RLIMIT_NOFILE to hold many requests.
  int max_connections = 10'000;  // >= 1
  Seconds idle_timeout{60.0};    // for the next request on a kept connection
  Seconds read_timeout{30.0};    // from a request's first byte to its last; for TLS's handshake
  Seconds write_timeout{30.0};   // for the client to receive an answer
};

// An answer with the sentence and a line end as text/plain.
HttpResponse text_response(int status, std::string_view sentence);

// The pending reply to one request. Copies are the same reply. Any thread may use them, also after
// the client or the server is gone; then calls do nothing. If the last copy is destroyed and
// neither send() nor hold() was called, the client gets a 500.
class HttpReply {
 public:
  // Answers the request; later calls do nothing. The server sets Content-Length, Connection and
  // Date, and omits the body of an answer to HEAD. A header with a line break turns the answer into
  // a 500.
  void send(HttpResponse response) const;

  // Keeps the request until send(). After `at_most` (from now, >= 0), or when the server stops, the
  // server answers with `otherwise`. Then, or if the client disconnects before send(), the server
  // calls `over` (which may be empty) once on its thread: nobody waits for this reply any more.
  // Another hold() replaces all three arguments. A client that closes its sending side counts as
  // disconnected. After send() this does nothing.
  void hold(Seconds at_most, HttpResponse otherwise, std::function<void()> over) const;

 private:
  friend class HttpConnection;
  struct Handle;
  explicit HttpReply(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<Handle> handle_;
};

// Answers now with `reply`, or keeps it. The server logs an Error that it throws and answers with a
// 500 and the Error's text.
using HttpHandler = std::function<void(HttpServerRequest request, HttpReply reply)>;

class HttpServer {
 public:
  // The server listens when the constructor returns. Throws Error "ADDRESS:PORT: ..." if it cannot
  // listen, or if a certificate or the key is invalid. A port whose former owner has died is free
  // at once (SO_REUSEADDR). Descriptors are close-on-exec; the thread blocks all signals.
  HttpServer(const HttpServerOptions& options, HttpHandler handler);
  // As stop() without grace.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // the one it listens on; any thread

  // New connections use this certificate and key; open ones keep theirs. Requires: the server has
  // TLS. Throws Error if they are invalid; the server then keeps the old ones. Any thread.
  void set_tls(const HttpTls& tls);

  // Calls `task` soon on the server's thread, or never if the server has stopped. Any thread.
  void post(std::function<void()> task);
  // The same after `delay` (>= 0).
  void post_after(Seconds delay, std::function<void()> task);

  // Stops accepting connections, answers held requests with their `otherwise`, and waits at most
  // `grace` (>= 0) until other requests are answered and the answers received; then closes all
  // connections. When it returns, the thread has ended and no function is called again. Do not call
  // it on the server's thread, or on two threads at once; a second call does nothing.
  void stop(Seconds grace);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace adaptdl
