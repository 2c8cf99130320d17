#include "tests/unit/net/loopback_server.h"

#include <arpa/inet.h>
#include <charconv>
#include <fcntl.h>
#include <openssl/pem.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tests/unit/net/certificate.h"

namespace adaptdl {

LoopbackServer::LoopbackServer(std::function<std::string(const std::string&)> answer, bool tls)
    : answer_(std::move(answer)) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  if (tls) use_tls();
  listener_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ADAPTDL_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  ADAPTDL_CHECK(listen(listener_.get(), 8) == 0);
  ADAPTDL_CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  int fds[2];
  ADAPTDL_CHECK(pipe2(fds, O_CLOEXEC) == 0);
  stop_reader_ = Fd(fds[0]);
  stop_writer_ = Fd(fds[1]);
  thread_ = std::thread([this] { serve(); });
}

LoopbackServer::~LoopbackServer() {
  stop_writer_.reset();
  thread_.join();
  if (tls_ != nullptr) SSL_CTX_free(tls_);
}

std::string LoopbackServer::url(const std::string& path) const {
  return fmt::format("{}:{}{}", tls_ != nullptr ? "https://localhost" : "http://127.0.0.1", port_,
                     path);
}

void LoopbackServer::use_tls() {
  const Certificate made = make_certificate();
  certificate_ = made.certificate;
  BIO* text = BIO_new_mem_buf(made.certificate.data(), static_cast<int>(made.certificate.size()));
  X509* cert = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
  BIO_free(text);
  text = BIO_new_mem_buf(made.key.data(), static_cast<int>(made.key.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
  BIO_free(text);
  tls_ = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(tls_, cert);
  SSL_CTX_use_PrivateKey(tls_, key);
  X509_free(cert);
  EVP_PKEY_free(key);
  SSL_CTX_set_verify(tls_, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
}

void LoopbackServer::serve() {
  for (;;) {
    pollfd waits[2] = {{listener_.get(), POLLIN, 0}, {stop_reader_.get(), POLLIN, 0}};
    if (poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) return;
    const Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) continue;
    ++connections_;
    talk(fd.get());
  }
}

void LoopbackServer::talk(int fd) {
  SSL* ssl = nullptr;
  if (tls_ != nullptr) {
    ssl = SSL_new(tls_);
    SSL_set_fd(ssl, fd);
  }
  const bool ready = ssl == nullptr || SSL_accept(ssl) == 1;
  if (ssl != nullptr && SSL_get0_peer_certificate(ssl) != nullptr) ++certified_;
  std::string buffer;
  while (ready) {
    // A whole request: the head, and as much body as it says.
    const size_t head = buffer.find("\r\n\r\n");
    if (head != std::string::npos) {
      size_t body = 0;
      const size_t length = buffer.find("Content-Length: ");
      if (length < head) {
        std::from_chars(buffer.data() + length + 16, buffer.data() + head, body);
      }
      if (buffer.size() >= head + 4 + body) {
        std::string response = answer_(buffer.substr(0, head + 4 + body));
        buffer.erase(0, head + 4 + body);
        const bool keep = response.find("keep-alive") != std::string::npos;
        // Unsaid, the client would send its next request to a connection about to be reset.
        if (!keep) response.insert(response.find("\r\n") + 2, "Connection: close\r\n");
        const auto size = static_cast<int>(response.size());
        const auto sent = ssl != nullptr ? SSL_write(ssl, response.data(), size)
                                         : send(fd, response.data(), response.size(), MSG_NOSIGNAL);
        if (sent < 0 || !keep) break;
        continue;
      }
    }
    pollfd waits[2] = {{fd, POLLIN, 0}, {stop_reader_.get(), POLLIN, 0}};
    if (ssl == nullptr || SSL_pending(ssl) == 0) {
      if (poll(waits, 2, -1) < 0 || waits[1].revents != 0) break;
    }
    char piece[4096];
    const auto got =
        ssl != nullptr ? SSL_read(ssl, piece, sizeof(piece)) : recv(fd, piece, sizeof(piece), 0);
    if (got <= 0) break;
    buffer.append(piece, static_cast<size_t>(got));
  }
  if (ssl != nullptr) {
    SSL_shutdown(ssl);
    SSL_free(ssl);
  }
}

}  // namespace adaptdl
