#pragma once

// Inside http_server: one client's connection. Everything here runs on the server's thread, but for
// HttpReply, which posts to it. The server owns a connection until that says that it is closed.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/net/http_request_reader.h"
#include "core/net/http_server.h"

namespace adaptdl {

namespace asio = boost::asio;

class HttpConnection;

// What connections share of their server. `closed` is called once by each.
struct HttpServerContext {
  HttpServerOptions options;
  HttpHandler handler;
  std::shared_ptr<asio::io_context> io;
  bool stopping = false;
  std::function<void(HttpConnection*)> closed;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // With `tls`, speaks it. `server` outlives all connections.
  HttpConnection(HttpServerContext& server, asio::ip::tcp::socket socket, asio::ssl::context* tls);

  void start();

  // Of the request of that number, if it still waits.
  void answer(uint64_t request, HttpResponse response);
  // The same; false if it waits no more.
  bool hold(uint64_t request, TimePoint until, HttpResponse otherwise,
            const std::function<void()>& over);

  // The server stops: ends now if nobody waits for an answer, else after that.
  void stop();
  void close();

 private:
  enum class State {
    handshake,
    idle,      // waits for a request's first byte
    reading,   // for the rest
    handling,  // for the handler's answer; reads meanwhile, to see the client go
    writing,   // for the client to take the answer
    ending,    // all is said: waits for the client to close, so that it reads all that was sent
    closed,
  };

  void read();
  void on_read(const boost::system::error_code& error, size_t size);
  void proceed();
  void handle();
  void write(std::string bytes);
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
  bool is_reading_ = false, is_writing_ = false;
  bool ended_ = false;  // the client sends no more
  bool keep_ = true, is_head_ = false;
  uint64_t request_ = 0;  // number of the last one
  HttpRequestReader reader_;
  std::string output_, being_written_;
  std::optional<HttpResponse> otherwise_;
  std::function<void()> over_;
  std::array<char, 2048> piece_;
};

}  // namespace adaptdl
