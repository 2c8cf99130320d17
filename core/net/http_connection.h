#pragma once

// Inside http_server: one client's connection. Everything here runs on the server's thread, except
// HttpReply, which posts to it. The server owns a connection until the connection calls `closed`.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "core/net/http_request_reader.h"
#include "core/net/http_server.h"

namespace adaptdl {

namespace asio = boost::asio;

class HttpConnection;

// Server state that connections share. Each connection calls `closed` once.
struct HttpServerContext {
  HttpServerOptions options;
  HttpHandler handler;
  std::shared_ptr<asio::io_context> io;
  bool stopping = false;
  std::function<void(HttpConnection*)> closed;
  // Connections on which no request is handled, the longest silent first. A request's first bytes
  // do not count, only a complete request does.
  std::list<HttpConnection*> silent;
  std::function<void()> silent_grew;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // Speaks TLS if `tls` is not null. `server` outlives all connections.
  HttpConnection(HttpServerContext& server, asio::ip::tcp::socket socket, asio::ssl::context* tls);

  void start();

  // Answers the request of that number, if it still waits.
  // By value, since it may be `otherwise_`, which ends here.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void answer(uint64_t request, HttpResponse response);
  // Holds that request; false if it no longer waits.
  bool hold(uint64_t request, TimePoint until, HttpResponse otherwise,
            const std::function<void()>& over);

  // The server stops: closes now if no request waits for an answer, else after the answer.
  void stop();
  void close();

 private:
  enum class State {
    handshake,
    idle,      // waiting for a request's first byte
    reading,   // waiting for the rest of the request
    handling,  // waiting for the handler; keeps reading to notice that the client disconnects
    writing,   // waiting for the client to receive the answer
    ending,    // waiting for the client to close, so that it can read all that was sent
    closed,
  };

  void enter(State state);
  std::optional<HttpResponse> admit(HttpServerRequest head);
  void read();
  void on_read(const boost::system::error_code& error, size_t size);
  void proceed();
  void handle();
  void write(const std::string& bytes);
  void on_written();
  void end();
  void expire_at(TimePoint time);
  void expire_after(Seconds duration);
  void on_deadline();
  std::string serialise(const HttpResponse& response);

  HttpServerContext& server_;
  asio::ip::tcp::socket socket_;
  std::optional<asio::ssl::stream<asio::ip::tcp::socket&>> tls_;
  asio::steady_timer timer_;
  State state_ = State::idle;
  std::optional<std::list<HttpConnection*>::iterator> silent_;  // its place among the silent ones
  bool is_reading_ = false, is_writing_ = false;
  bool ended_ = false;  // the client has closed its sending side
  bool keep_ = true, is_head_ = false;
  uint64_t request_ = 0;  // number of the last one
  std::string client_;    // its address
  HttpRequestReader reader_;
  std::string output_, being_written_;
  std::optional<HttpResponse> otherwise_;
  std::function<void()> over_;
  std::array<char, 2048> piece_;
};

}  // namespace adaptdl
