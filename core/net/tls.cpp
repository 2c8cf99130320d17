#include "core/net/tls.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr size_t kLeastKey = 16, kMostKey = 64;
constexpr size_t kBatch = 128 << 10;  // encrypted, and read, by one system call
constexpr const char* kIdentity = "adaptdl";

std::string reason() {
  const unsigned long code = ERR_peek_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return text == nullptr ? "" : text;
}

[[noreturn]] void fail_tls(const char* what) {
  fail("{}: {}", what, reason());
}

}  // namespace

struct TlsContext {
  TlsContext() : ssl(SSL_CTX_new(TLS_method()), &SSL_CTX_free) {
    if (ssl == nullptr || SSL_CTX_set_min_proto_version(ssl.get(), TLS1_3_VERSION) != 1) {
      fail_tls("cannot use TLS");
    }
    SSL_CTX_set_session_cache_mode(ssl.get(), SSL_SESS_CACHE_OFF);
    // What is sent in TLS tells itself whether it is complete.
    SSL_CTX_set_options(ssl.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ssl.get(), SSL_MODE_RELEASE_BUFFERS);
  }

  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> ssl;
  uint64_t rekey_bytes = TlsKeyOptions{}.rekey_bytes;
  bool by_key = false;  // else by the server's certificate
};

struct TlsKey::Context : TlsContext {
  ~Context() { OPENSSL_cleanse(key.data(), key.size()); }

  std::vector<uint8_t> key;

  static unsigned give(const SSL* ssl, unsigned char* key, unsigned room) {
    const auto* self = static_cast<const Context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    if (self->key.size() > room) return 0;
    std::memcpy(key, self->key.data(), self->key.size());
    return static_cast<unsigned>(self->key.size());
  }
  static unsigned as_client(SSL* ssl, const char*, char* identity, unsigned identity_room,
                            unsigned char* key, unsigned room) {
    const size_t size = std::strlen(kIdentity) + 1;
    if (identity_room < size) return 0;
    std::memcpy(identity, kIdentity, size);
    return give(ssl, key, room);
  }
  static unsigned as_server(SSL* ssl, const char* identity, unsigned char* key, unsigned room) {
    return std::strcmp(identity, kIdentity) == 0 ? give(ssl, key, room) : 0;
  }
};

TlsKey::TlsKey(std::span<const uint8_t> key, TlsKeyOptions options)
    : context_(std::make_shared<Context>()) {
  if (key.size() < kLeastKey || key.size() > kMostKey) {
    fail("a shared key of TLS has {} to {} bytes, this has {}", kLeastKey, kMostKey, key.size());
  }
  context_->key.assign(key.begin(), key.end());
  context_->rekey_bytes = options.rekey_bytes;
  context_->by_key = true;
  SSL_CTX* ssl = context_->ssl.get();
  if (SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") != 1) fail_tls("cannot use TLS");
  SSL_CTX_set_num_tickets(ssl, 0);
  SSL_CTX_set_app_data(ssl, context_.get());
  SSL_CTX_set_psk_client_callback(ssl, &Context::as_client);
  SSL_CTX_set_psk_server_callback(ssl, &Context::as_server);
}

TlsAuthorities::TlsAuthorities(const std::string& certificates, const std::string& host)
    : host_(host) {
  const auto context = std::make_shared<TlsContext>();
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(certificates.data(), static_cast<int>(certificates.size())), &BIO_free);
  X509_STORE* known = SSL_CTX_get_cert_store(context->ssl.get());
  int count = 0;
  while (X509* one = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(known, one);
    X509_free(one);
    ++count;
  }
  ERR_clear_error();  // the end of the text is one
  if (count == 0) fail("no certificate (PEM) to believe a server by");
  SSL_CTX_set_verify(context->ssl.get(), SSL_VERIFY_PEER, nullptr);
  context_ = context;
}

struct TlsSession::Impl {
  Impl(std::shared_ptr<const TlsContext> the_context, TlsSide side, int the_socket)
      : context(std::move(the_context)),
        socket(the_socket),
        ssl(SSL_new(context->ssl.get()), &SSL_free) {
    BIO* bio = BIO_new(method());
    if (ssl == nullptr || bio == nullptr) fail_tls("cannot begin TLS");
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl.get(), bio, bio);
    if (side == TlsSide::server) {
      SSL_set_accept_state(ssl.get());
    } else {
      SSL_set_connect_state(ssl.get());
      // A server that had a certificate instead of the key would be believed otherwise.
      SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
    }
  }

  // OpenSSL reads from, and writes to, buffers of ours, so that many records go by one system call,
  // without SIGPIPE. (Its own read-ahead moves the rest of its buffer after each record.)
  static const BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "adaptdl");
      if (bio == nullptr) fail_tls("cannot use TLS");
      BIO_meth_set_read(bio, [](BIO* self, char* data, int size) {
        return static_cast<Impl*>(BIO_get_data(self))->read(self, data, size);
      });
      BIO_meth_set_write(bio, [](BIO* self, const char* data, int size) {
        static_cast<Impl*>(BIO_get_data(self))->out.append(data, static_cast<size_t>(size));
        return size;
      });
      BIO_meth_set_ctrl(bio, [](BIO* self, int what, long, void*) -> long {
        if (what == BIO_CTRL_EOF) return static_cast<Impl*>(BIO_get_data(self))->ended ? 1 : 0;
        return what == BIO_CTRL_FLUSH ? 1 : 0;
      });
      return bio;
    }();
    return made;
  }

  int read(BIO* self, char* data, int size) {
    BIO_clear_retry_flags(self);
    if (taken == filled) {
      in.resize(kBatch);
      ssize_t got;
      do {
        got = ::recv(socket, in.data(), in.size(), MSG_DONTWAIT);
      } while (got < 0 && errno == EINTR);
      taken = 0;
      filled = static_cast<size_t>(std::max<ssize_t>(got, 0));
      ended = got == 0;
      if (got < 0 && errno == EAGAIN) BIO_set_retry_read(self);
      if (got <= 0) return static_cast<int>(got);
    }
    const size_t count = std::min(static_cast<size_t>(size), filled - taken);
    std::memcpy(data, in.data() + taken, count);
    taken += count;
    return static_cast<int>(count);
  }

  // Sends what was collected.
  IoState flush() {
    while (flushed < out.size()) {
      const ssize_t sent =
          ::send(socket, out.data() + flushed, out.size() - flushed, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        flushed += static_cast<size_t>(sent);
      } else if (errno == EAGAIN) {
        return IoState::later;
      } else if (errno != EINTR) {
        return IoState::closed;
      }
    }
    out.clear();
    flushed = 0;
    return IoState::done;
  }

  // The state after an operation of OpenSSL that returned `result`.
  IoState after(int result) {
    if (result > 0) {
      shaken = true;
      if (!context->by_key || SSL_session_reused(ssl.get()) == 1) return IoState::done;
      problem = "it did not prove that it has the key";
      return IoState::closed;
    }
    const int error = SSL_get_error(ssl.get(), result);
    if (error == SSL_ERROR_WANT_READ) return IoState::later;
    if (error == SSL_ERROR_SSL) {
      const char* what = shaken            ? "what arrives is not what it has sent"
                         : context->by_key ? "it has another key, or none"
                                           : "its certificate is not to be believed";
      problem = fmt::format("{} ({})", what, reason());
      flush();  // the alert, which tells the peer
    }
    return IoState::closed;
  }

  IoState shake_hands() {
    if (shaken) return flush();
    ERR_clear_error();
    const IoState state = after(SSL_do_handshake(ssl.get()));
    if (state == IoState::closed) return state;
    const IoState flushing = flush();
    return flushing == IoState::done ? state : flushing;
  }

  std::mutex mutex;  // what OpenSSL does in one direction may concern the other
  const std::shared_ptr<const TlsContext> context;
  const int socket;
  bool shaken = false;           // the handshake is done
  bool ended = false;            // the stream, as the socket says
  std::vector<char> in;          // received: up to `filled`, ...
  size_t filled = 0, taken = 0;  // ... of which OpenSSL has the first `taken`
  std::string out;               // encrypted, ...
  size_t flushed = 0;            // ... and how much of it the kernel has
  size_t encrypted = 0;          // bytes of the caller's data that are in `out`
  uint64_t under_key = 0;        // bytes sent under the present key
  std::string problem;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl;
};

TlsSession::TlsSession(const TlsKey& key, TlsSide side, int socket)
    : impl_(std::make_unique<Impl>(key.context_, side, socket)) {}

TlsSession::TlsSession(const TlsAuthorities& authorities, int socket)
    : impl_(std::make_unique<Impl>(authorities.context_, TlsSide::client, socket)) {
  SSL* ssl = impl_->ssl.get();
  const char* host = authorities.host_.c_str();
  X509_VERIFY_PARAM* rules = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1) return;
  ERR_clear_error();  // it is a name
  if (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1) {
    fail_tls("cannot begin TLS");
  }
}

TlsSession::~TlsSession() = default;

IoState TlsSession::shake_hands() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shake_hands();
}

IoState TlsSession::send(std::string_view first, std::string_view second, size_t& sent) {
  Impl& self = *impl_;
  const std::lock_guard lock(self.mutex);
  if (!self.problem.empty()) return IoState::closed;
  if (self.encrypted == 0) {
    if (const IoState before = self.shake_hands(); before != IoState::done) return before;
    if (self.under_key >= self.context->rekey_bytes) {
      SSL_key_update(self.ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
      self.under_key = 0;
    }
    for (const std::string_view part : {first, second}) {
      const size_t size = std::min(part.size(), kBatch - self.encrypted);
      if (size == 0) continue;
      ERR_clear_error();
      const int written = SSL_write(self.ssl.get(), part.data(), static_cast<int>(size));
      if (const IoState state = self.after(written); state != IoState::done) return state;
      self.encrypted += size;
      if (size < part.size()) break;
    }
    self.under_key += self.encrypted;
  }
  const IoState state = self.flush();
  if (state == IoState::done) sent = std::exchange(self.encrypted, 0);
  return state;
}

IoState TlsSession::recv(std::span<std::byte> data, size_t& got) {
  Impl& self = *impl_;
  const std::lock_guard lock(self.mutex);
  if (!self.problem.empty()) return IoState::closed;
  ERR_clear_error();
  const int size = static_cast<int>(std::min<size_t>(data.size(), INT32_MAX));
  const int read = SSL_read(self.ssl.get(), data.data(), size);
  const IoState state = self.after(read);
  if (state == IoState::done) got = static_cast<size_t>(read);
  // The handshake's answer. It fits: the peer has yet to read anything.
  if (state == IoState::later && self.encrypted == 0 && self.flush() == IoState::closed) {
    return IoState::closed;
  }
  return state;
}

short TlsSession::wants() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->out.empty() ? POLLIN : POLLOUT;
}

std::string TlsSession::problem() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->problem;
}

}  // namespace adaptdl
