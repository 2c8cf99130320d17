#include "core/net/http_server.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <netinet/in.h>
#include <poll.h>
#include <set>
#include <signal.h>
#include <sys/socket.h>
#include <thread>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/poll.h"
#include "core/net/http_connection.h"

namespace adaptdl {
namespace {

using Tcp = asio::ip::tcp;
using boost::system::error_code;

// Pause after accept() found no free descriptor.
constexpr Seconds kAcceptPause{0.2};

Monotonic::duration ticks(Seconds duration) {
  return std::chrono::duration_cast<Monotonic::duration>(duration);
}

std::shared_ptr<asio::ssl::context> make_tls(const HttpTls& tls) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code error;
  context->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, error);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  // Otherwise OpenSSL would ask for a password at the terminal.
  context->set_password_callback(
      [](size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  context->use_certificate_chain(asio::buffer(tls.certificate), error);
  if (error) fail("the certificate is not valid PEM: {}", error.message());
  context->use_private_key(asio::buffer(tls.key), asio::ssl::context::pem, error);
  if (error) {
    fail("the key is not a PEM key without a password, or it does not match the certificate: {}",
         error.message());
  }
  if (!tls.client_authorities) return context;
  context->add_certificate_authority(asio::buffer(*tls.client_authorities), error);
  if (error) fail("the clients' authorities are not valid PEM: {}", error.message());
  context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  // No sessions to resume: each connection shows a certificate.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context->native_handle(), 0);
  return context;
}

// None, and errno, if the port is taken, for example. Uses system calls, because child processes
// inherit Asio's own sockets.
Fd try_listen(const Tcp::endpoint& endpoint) {
  Fd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  const int yes = 1, no = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (endpoint.address().is_v6()) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    const int reason = errno;
    fd.reset();
    errno = reason;
  }
  return fd;
}

}  // namespace

struct HttpServer::Core {
  Core(const HttpServerOptions& options, HttpHandler handler);

  void listen(const std::string& address, uint16_t on_port);
  void accept_when_ready();
  void accept();
  bool accept_one();
  bool full() const;
  bool displace();
  void run();
  void stop(Seconds grace);
  void close_all();

  HttpServerContext context;
  Tcp::acceptor acceptor;
  asio::steady_timer timer;  // pause of accept(), then the grace of stop()
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::shared_ptr<asio::ssl::context> tls;
  std::unordered_map<HttpConnection*, std::shared_ptr<HttpConnection>> connections;
  std::set<std::shared_ptr<asio::steady_timer>> delayed;  // of post_after()
  bool accepting = false;                                 // waits for a client, or pauses
  bool told = false;
  std::optional<Tcp> protocol;
  uint16_t port = 0;
  std::thread thread;
};

HttpServer::Core::Core(const HttpServerOptions& options, HttpHandler handler)
    : context{options, std::move(handler), std::make_shared<asio::io_context>(1), false, {}, {},
              {}},
      acceptor(*context.io),
      timer(*context.io),
      guard(context.io->get_executor()) {
  ADAPTDL_CHECK(options.max_connections >= 1);
  try {
    if (options.tls) tls = make_tls(*options.tls);
    listen(options.address, options.port);
  } catch (const Error& error) {
    fail("{}:{}: {}", url_host(options.address), options.port, error.what());
  }
  context.closed = [this](HttpConnection* connection) {
    connections.erase(connection);
    if (!context.stopping) return accept_when_ready();
    if (connections.empty()) timer.cancel();
  };
  context.silent_grew = [this] { accept_when_ready(); };
  accept_when_ready();
}

// The first of "*" admits clients of IPv4, too, and a system without IPv6 has the second.
void HttpServer::Core::listen(const std::string& address, uint16_t on_port) {
  Fd fd;
  int reason = 0;
  for (const std::string& each : address == "*" ? std::vector<std::string>{"::", "0.0.0.0"}
                                                : std::vector<std::string>{address}) {
    error_code error;
    const Tcp::endpoint endpoint(asio::ip::make_address(each, error), on_port);
    if (error) fail("not a numeric address; give one such as 127.0.0.1 or ::1");
    fd = try_listen(endpoint);
    reason = errno;
    protocol = endpoint.protocol();
    if (fd || reason == EADDRINUSE) break;
  }
  if (!fd && reason == EADDRINUSE) fail("another program listens there: choose another port");
  if (!fd) fail_errno(reason, "cannot listen");
  acceptor.assign(*protocol, fd.release());
  acceptor.native_non_blocking(true);
  port = acceptor.local_endpoint().port();
}

bool HttpServer::Core::full() const {
  return connections.size() >= static_cast<size_t>(context.options.max_connections);
}

// Closes the connection that has been silent for longest; false if there is none.
bool HttpServer::Core::displace() {
  if (context.silent.empty()) return false;
  context.silent.front()->close();
  return true;
}

void HttpServer::Core::accept_when_ready() {
  if (accepting || context.stopping || (full() && context.silent.empty())) return;
  accepting = true;
  acceptor.async_wait(Tcp::acceptor::wait_read, [this](const error_code& error) {
    if (error || context.stopping) return;
    accept();
  });
}

void HttpServer::Core::accept() {
  // A connection is displaced only once there is a new one, which is silent, too, but not for long.
  while (!full() || !context.silent.empty()) {
    const bool displaces = full();
    if (accept_one()) {
      if (displaces) displace();
      continue;
    }
    const int reason = errno;
    if (reason == ECONNABORTED || reason == EINTR || reason == EPROTO) continue;
    if (reason == EAGAIN) break;
    if (reason == EMFILE || reason == ENFILE) {
      // accept4 wants the descriptor first, before it looks for a client.
      if (!wait_ready(acceptor.native_handle(), POLLIN, Monotonic::now())) break;
      if (displace()) continue;
    }
    if (!std::exchange(told, true)) {
      log_warning("HTTP server, port {}: cannot accept connections, so they wait: {}", port,
                  error_code(reason, boost::system::system_category()).message());
    }
    timer.expires_after(ticks(kAcceptPause));
    timer.async_wait([this](const error_code& error) {
      if (error || context.stopping) return;
      accepting = false;
      accept_when_ready();
    });
    return;
  }
  accepting = false;
  accept_when_ready();
}

// False with errno set if there was none.
bool HttpServer::Core::accept_one() {
  Fd fd(::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return false;
  Tcp::socket socket(*context.io);
  error_code error;
  socket.assign(*protocol, fd.get(), error);
  if (error) return errno = error.value(), false;
  fd.release();
  socket.set_option(Tcp::no_delay(true), error);
  const auto connection = std::make_shared<HttpConnection>(context, std::move(socket), tls.get());
  connections.emplace(connection.get(), connection);
  connection->start();
  return true;
}

void HttpServer::Core::run() {
  for (;;) {
    try {
      context.io->run();
      return;
    } catch (const std::exception& error) {
      log_error("HTTP server: {}", error.what());
    }
  }
}

void HttpServer::Core::stop(Seconds grace) {
  context.stopping = true;
  error_code ignored;
  acceptor.close(ignored);
  guard.reset();
  for (const auto& pending : delayed) pending->cancel();
  for (const auto& [key, connection] : std::unordered_map(connections)) {
    connection->stop();
  }
  timer.expires_after(ticks(grace));
  if (connections.empty()) {
    timer.cancel();
    return;
  }
  timer.async_wait([this](const error_code& error) {
    if (!error) close_all();
  });
}

void HttpServer::Core::close_all() {
  for (const auto& [key, connection] : std::unordered_map(connections)) {
    connection->close();
  }
}

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler handler)
    : core_(std::make_unique<Core>(options, std::move(handler))) {
  // The process's own threads handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  core_->thread = std::thread([core = core_.get()] { core->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HttpServer::~HttpServer() {
  stop(Seconds(0));
}

uint16_t HttpServer::port() const {
  return core_->port;
}

void HttpServer::set_tls(const HttpTls& tls) {
  ADAPTDL_CHECK(core_->context.options.tls.has_value());
  post([core = core_.get(), made = make_tls(tls)] { core->tls = made; });
}

void HttpServer::post(std::function<void()> task) {
  asio::post(*core_->context.io, std::move(task));
}

void HttpServer::post_after(Seconds delay, std::function<void()> task) {
  post([core = core_.get(), delay, task = std::move(task)] {
    if (core->context.stopping) return;
    const auto pending = std::make_shared<asio::steady_timer>(*core->context.io, ticks(delay));
    core->delayed.insert(pending);
    pending->async_wait([core, pending, task](const error_code& error) {
      core->delayed.erase(pending);
      if (!error && !core->context.stopping) task();
    });
  });
}

void HttpServer::stop(Seconds grace) {
  if (!core_->thread.joinable()) return;
  ADAPTDL_CHECK(core_->thread.get_id() != std::this_thread::get_id());
  post([core = core_.get(), grace] { core->stop(grace); });
  core_->thread.join();
}

HttpResponse text_response(int status, std::string_view sentence) {
  return {status, {{"Content-Type", "text/plain; charset=utf-8"}}, std::string(sentence) + "\n"};
}

std::optional<std::string> HttpServerRequest::parameter(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) {
      return std::string(pair.substr(std::min(equals + 1, pair.size())));
    }
  }
  return std::nullopt;
}

}  // namespace adaptdl
