#include "core/net/http_connection.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <fmt/chrono.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace adaptdl {
namespace {

using Tcp = asio::ip::tcp;
using boost::system::error_code;

// How long a client may take to read the last answer and close.
constexpr Seconds kEnding{2.0};

// Practically for ever, without overflowing the clock's ticks.
constexpr Seconds kLongest{1e9};

// Bytes of further requests that a client sends before it has its answer; the rest waits in the
// socket.
constexpr size_t kMostAhead = 16u << 10;

bool is_servers_own(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower == "content-length" || lower == "connection" || lower == "date" ||
         lower == "transfer-encoding";
}

// A client of IPv4 has its own address also where the server listens for IPv6.
asio::ip::address plain_address(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

// The answer to a request for which the present exception was thrown; logs it.
HttpResponse failure(const std::string& what) {
  try {
    throw;
  } catch (const Error& error) {
    log_warning("{}: {}", what, error.what());
    return text_response(500, error.what());
  } catch (const std::exception& error) {
    log_error("{}: {}", what, error.what());
    return text_response(500, "The server failed to handle this request.");
  }
}

bool breaks_line(const HttpResponse& response) {
  constexpr std::string_view kBreaks("\r\n\0", 3);
  return std::any_of(response.headers.begin(), response.headers.end(), [&](const auto& header) {
    return header.first.find_first_of(kBreaks) != std::string::npos ||
           header.second.find_first_of(kBreaks) != std::string::npos;
  });
}

}  // namespace

struct HttpReply::Handle {
  std::weak_ptr<asio::io_context> io;  // weak: what is posted there may hold replies
  std::weak_ptr<HttpConnection> connection;
  uint64_t request = 0;
  std::atomic<bool> held = false, sent = false;

  // Calls `action` on the server's thread, with nullptr if the connection is gone.
  template <typename Action>
  void on_connection(Action action) {
    const auto alive_io = io.lock();
    if (!alive_io) return;
    asio::post(*alive_io, [connection = connection, action = std::move(action)]() mutable {
      action(connection.lock().get());
    });
  }

  void answer(HttpResponse response) {
    on_connection([request = request, response = std::move(response)](HttpConnection* to) mutable {
      if (to != nullptr) to->answer(request, std::move(response));
    });
  }

  ~Handle() {
    if (!held && !sent) answer(text_response(500, "The server did not answer this request."));
  }
};

void HttpReply::send(HttpResponse response) const {
  if (handle_->sent.exchange(true)) return;
  if (response.status < 200 || response.status > 599 || breaks_line(response)) {
    log_error("cannot send an HTTP response: its status {} or a header is invalid",
              response.status);
    response = text_response(500, "The server made an invalid answer to this request.");
  }
  handle_->answer(std::move(response));
}

void HttpReply::hold(Seconds at_most, HttpResponse otherwise, std::function<void()> over) const {
  if (handle_->sent) return;
  handle_->held = true;
  const Seconds bounded = std::min(at_most, kLongest);
  const TimePoint until =
      Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(bounded);
  // Another thread's answer, sent after this, may be handled before it: nothing is over then.
  handle_->on_connection([handle = handle_, until, otherwise = std::move(otherwise),
                          over = std::move(over)](HttpConnection* of) mutable {
    const bool holds =
        of != nullptr && of->hold(handle->request, until, std::move(otherwise), over);
    if (!holds && !handle->sent && over) over();
  });
}

HttpConnection::HttpConnection(HttpServerContext& server, Tcp::socket socket,
                               asio::ssl::context* tls)
    : server_(server),
      socket_(std::move(socket)),
      timer_(*server.io),
      reader_(server.options.max_head, server.options.max_body,
              [this](HttpServerRequest head) { return admit(std::move(head)); }) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
  error_code error;
  const auto peer = socket_.remote_endpoint(error);
  if (!error) client_ = plain_address(peer.address()).to_string();
}

void HttpConnection::enter(State state) {
  state_ = state;
  const bool silent = state == State::handshake || state == State::idle ||
                      state == State::reading || state == State::ending;
  if (silent == silent_.has_value()) return;
  if (silent) {
    silent_ = server_.silent.insert(server_.silent.end(), this);
    server_.silent_grew();
  } else {
    server_.silent.erase(*std::exchange(silent_, std::nullopt));
  }
}

std::optional<HttpResponse> HttpConnection::admit(HttpServerRequest head) {
  if (!server_.options.admit) return std::nullopt;
  head.client = client_;
  try {
    return server_.options.admit(head);
  } catch (...) {
    return failure(head.method + " " + head.path);
  }
}

void HttpConnection::start() {
  if (!tls_) {
    enter(State::idle);
    expire_after(server_.options.idle_timeout);
    return read();
  }
  enter(State::handshake);
  expire_after(server_.options.read_timeout);
  tls_->async_handshake(asio::ssl::stream_base::server,
                        [this, self = shared_from_this()](const error_code& error) {
                          if (state_ == State::closed) return;
                          if (error || server_.stopping) return close();
                          enter(State::idle);
                          expire_after(server_.options.idle_timeout);
                          read();
                        });
}

void HttpConnection::read() {
  if (is_reading_ || ended_ || state_ == State::closed) return;
  const auto unread = reader_.state();
  const bool enough =
      unread == HttpRequestReader::State::refused ||
      (unread == HttpRequestReader::State::whole && reader_.waiting_bytes() > kMostAhead);
  if (enough && state_ != State::ending) return;
  is_reading_ = true;
  const auto done = [this, self = shared_from_this()](const error_code& error, size_t size) {
    is_reading_ = false;
    on_read(error, size);
  };
  if (tls_) {
    tls_->async_read_some(asio::buffer(piece_), done);
  } else {
    socket_.async_read_some(asio::buffer(piece_), done);
  }
}

void HttpConnection::on_read(const error_code& error, size_t size) {
  if (state_ == State::closed) return;
  if (error) {
    ended_ = true;
    // A client that has closed its sending side may still read the answer.
    if (state_ != State::writing) close();
    return;
  }
  if (state_ != State::ending) {
    reader_.add({piece_.data(), size});
    if (state_ == State::idle || state_ == State::reading) proceed();
  }
  read();
}

// Checks how much of the next request has been read.
void HttpConnection::proceed() {
  switch (reader_.state()) {
    case HttpRequestReader::State::empty:
      if (state_ != State::idle) {
        enter(State::idle);
        expire_after(server_.options.idle_timeout);
      }
      return;
    case HttpRequestReader::State::partial:
      if (state_ == State::idle) {
        enter(State::reading);
        expire_after(server_.options.read_timeout);
      }
      if (reader_.take_expectation()) write("HTTP/1.1 100 Continue\r\n\r\n");
      return;
    case HttpRequestReader::State::refused:
      keep_ = false;
      is_head_ = false;
      enter(State::handling);
      return answer(++request_, reader_.refusal());
    case HttpRequestReader::State::whole:
      return handle();
  }
}

void HttpConnection::handle() {
  enter(State::handling);
  expire_at(TimePoint::max());
  HttpRequestReader::Taken taken = reader_.take();
  keep_ = taken.keep_alive;
  is_head_ = taken.request.method == "HEAD";
  const auto handle = std::make_shared<HttpReply::Handle>();
  handle->io = server_.io;
  handle->connection = weak_from_this();
  handle->request = ++request_;
  const HttpReply reply(handle);
  const std::string what = taken.request.method + " " + taken.request.path;
  taken.request.client = client_;
  try {
    server_.handler(std::move(taken.request), reply);
  } catch (...) {
    reply.send(failure(what));
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
void HttpConnection::answer(uint64_t request, HttpResponse response) {
  if (request != request_ || state_ != State::handling) return;
  otherwise_.reset();
  over_ = nullptr;
  enter(State::writing);
  expire_after(server_.options.write_timeout);
  if (server_.stopping) keep_ = false;
  write(serialise(response));
}

bool HttpConnection::hold(uint64_t request, TimePoint until, HttpResponse otherwise,
                          const std::function<void()>& over) {
  if (request != request_ || state_ != State::handling) return false;
  otherwise_ = std::move(otherwise);
  over_ = over;
  expire_at(server_.stopping ? Monotonic::now() : until);
  return true;
}

std::string HttpConnection::serialise(const HttpResponse& response) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                 std::string_view(reason.data(), reason.size()));
  for (const auto& [name, value] : response.headers) {
    if (!is_servers_own(name)) text += fmt::format("{}: {}\r\n", name, value);
  }
  text += fmt::format("Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", fmt::gmtime(std::time(nullptr)));
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) text += fmt::format("Content-Length: {}\r\n", response.body.size());
  text += keep_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (has_body && !is_head_) text += response.body;
  return text;
}

void HttpConnection::write(const std::string& bytes) {
  output_ += bytes;
  if (is_writing_) return;
  is_writing_ = true;
  being_written_ = std::exchange(output_, {});
  const auto done = [this, self = shared_from_this()](const error_code& error, size_t) {
    is_writing_ = false;
    being_written_ = std::string();
    if (state_ == State::closed) return;
    if (error) return close();
    if (!output_.empty()) return write({});
    if (state_ == State::writing) on_written();
  };
  if (tls_) {
    asio::async_write(*tls_, asio::buffer(being_written_), done);
  } else {
    asio::async_write(socket_, asio::buffer(being_written_), done);
  }
}

void HttpConnection::on_written() {
  if (!keep_ || ended_ || server_.stopping) return end();
  enter(State::idle);
  expire_after(server_.options.idle_timeout);
  proceed();
  read();
}

// Closing at once with unread bytes would send RST, and the client would lose the answer.
void HttpConnection::end() {
  if (ended_ && !tls_) return close();
  enter(State::ending);
  expire_after(kEnding);
  if (tls_) {
    tls_->async_shutdown([this, self = shared_from_this()](const error_code&) { close(); });
    return;
  }
  error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  read();
}

void HttpConnection::stop() {
  switch (state_) {
    case State::handshake:
    case State::idle:
      return close();
    case State::handling:
      if (otherwise_) expire_at(Monotonic::now());
      return;
    default:
      return;  // ends when its answer is written
  }
}

void HttpConnection::close() {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  enter(State::closed);
  expire_at(TimePoint::max());
  error_code ignored;
  socket_.close(ignored);
  otherwise_.reset();
  server_.closed(this);
  if (const auto over = std::exchange(over_, nullptr)) over();
}

void HttpConnection::expire_at(TimePoint time) {
  timer_.expires_at(time);
  if (time == TimePoint::max()) return;
  timer_.async_wait([this, self = shared_from_this()](const error_code& error) {
    // A handler that was already due when the timer was reset is still called.
    if (!error && state_ != State::closed && timer_.expiry() <= Monotonic::now()) on_deadline();
  });
}

void HttpConnection::expire_after(Seconds duration) {
  expire_at(Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(duration));
}

void HttpConnection::on_deadline() {
  switch (state_) {
    case State::reading:
      keep_ = false;
      is_head_ = false;
      enter(State::handling);
      return answer(++request_, text_response(408, "The request timed out."));
    case State::handling: {
      const auto over = std::exchange(over_, nullptr);
      answer(request_, std::move(otherwise_.value()));
      if (over) over();
      return;
    }
    case State::writing: {
      // The kernel would keep unsent data for many minutes: discard it.
      error_code ignored;
      socket_.set_option(Tcp::socket::linger(true, 0), ignored);
      return close();
    }
    default:
      return close();
  }
}

}  // namespace adaptdl
