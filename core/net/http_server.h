#pragma once

// An HTTP/1.1 server for whoever serves other programs: the supervisor's long polls, webhooks,
// metrics, pages. Kept connections, HEAD, chunked bodies of requests, Expect: 100-continue, TLS.
// Answers are whole: a body is a string, sent with its length.
//
// Each server has one thread. Handlers and all other functions given to it are called there, one at
// a time, so what they share among themselves needs no lock; while one works, nobody else is
// served. A handler that cannot answer at once keeps the reply and answers later, from any thread:
// a held request costs a connection and a few kilobytes, no thread.

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
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // a numeric one of this machine; "0.0.0.0" or "::" are all
  uint16_t port = 0;                  // 0: any free one
  std::optional<HttpTls> tls;         // none: plain HTTP
  size_t max_head = 16u << 10;        // bytes of request line and headers: more are answered 431
  size_t max_body = 1u << 20;         // bytes of a request's body: more are answered 413
  // Further ones wait until a connection ends, as they do when the process has no descriptor left.
  // Each is a descriptor: whoever holds many requests raises RLIMIT_NOFILE.
  int max_connections = 10'000;  // >= 1
  Seconds idle_timeout{60.0};    // for the next request on a kept connection
  Seconds read_timeout{30.0};    // from a request's first byte to its last; for TLS's handshake
  Seconds write_timeout{30.0};   // for an answer to be taken
};

struct HttpServerRequest {
  std::string method;   // as sent: "GET"
  std::string path;     // starts with '/'; without host and query; not percent-decoded
  std::string query;    // what follows the first '?'; not decoded
  HttpHeaders headers;  // names in lower case, in the client's order
  std::string body;     // unchunked

  std::optional<std::string> header(std::string_view lower_case_name) const {
    return find_header(headers, lower_case_name);
  }
  // The value of NAME=VALUE in the query, not decoded; the first one. "" for a name alone.
  std::optional<std::string> parameter(std::string_view name) const;
};

// The sentence and a line end as text/plain.
HttpResponse text_response(int status, std::string_view sentence);

// One request's answer to be. Copies are the same reply; any thread may use them, also after the
// client or the server has gone, when nothing happens. When the last copy goes and neither send()
// nor hold() was called, the client gets a 500.
class HttpReply {
 public:
  // Answers. The first answer counts. Content-Length, Connection and Date are the server's to say;
  // to HEAD the body is left out. A header with a line break in it makes the answer a 500.
  void send(HttpResponse response) const;

  // Keeps the request until send(), but for `at_most` (from now, >= 0) and until the server stops;
  // then it is answered by `otherwise`. When that happens, or the client goes away before send(),
  // `over` (which may be empty) is called once on the server's thread: nobody waits for this reply
  // any more. To hold again replaces all three. An end of the client's sending counts as its going
  // away. After send() this does nothing.
  void hold(Seconds at_most, HttpResponse otherwise, std::function<void()> over) const;

 private:
  friend class HttpConnection;
  struct Handle;
  explicit HttpReply(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<Handle> handle_;
};

// Answers now by `reply`, or keeps it. An Error that it throws is logged, and becomes a 500 with
// its sentence as text.
using HttpHandler = std::function<void(HttpServerRequest request, HttpReply reply)>;

class HttpServer {
 public:
  // Listens and serves when it returns. Throws Error "ADDRESS:PORT: ..." that says why it cannot
  // listen, or what is wrong with the certificate or the key. A port whose former owner has died is
  // free at once. Descriptors are close-on-exec; the thread takes no signals.
  HttpServer(const HttpServerOptions& options, HttpHandler handler);
  // As stop() without grace.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // the one it listens on; any thread

  // Connections from now on use these; those that are open keep theirs. For a server that has TLS.
  // Throws Error if they are not usable, and goes on with the old ones. Any thread.
  void set_tls(const HttpTls& tls);

  // Calls `task` soon on the server's thread; not at all once the server has stopped. Any thread.
  void post(std::function<void()> task);

  // Accepts nobody any more, answers what is held by its `otherwise`, and waits for other requests
  // to be answered and taken, for at most `grace` (>= 0); then closes all. When it returns, the
  // thread has ended and no function is called again. Not to be called on the server's thread, and
  // by one thread at a time; the second time nothing happens.
  void stop(Seconds grace);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace adaptdl
