#include "core/net/stream.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/rng.h"
#include "core/net/socket.h"

using namespace adaptdl;

namespace {

const std::string kSecret = "0123456789abcdef";

TlsKey key_of(const std::string& text, TlsKeyOptions options = {}) {
  return TlsKey(bytes_of(text), options);
}

TimePoint soon() {
  return Monotonic::now() + std::chrono::seconds(10);
}

// Two ends whose bytes on the wire can be read and changed in between.
struct Wire {
  explicit Wire(const TlsKey& ours, const TlsKey& theirs) {
    auto [a, near] = socket_pair();
    auto [b, far] = socket_pair();
    for (const Fd* fd : {&a, &near, &b, &far}) set_nonblocking(fd->get());
    client = Stream(std::move(a), ours, TlsSide::client);
    server = Stream(std::move(b), theirs, TlsSide::server);
    ends[0] = std::move(near), ends[1] = std::move(far);
  }

  // Carries what is on its way, in both directions. False if there was nothing.
  bool carry() {
    bool any = false;
    for (int from = 0; from < 2; ++from) {
      char bytes[1 << 16];
      const ssize_t got = ::recv(ends[from].get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got <= 0) continue;
      any = true;
      seen[from].append(bytes, static_cast<size_t>(got));
      if (damage == from && got > 30) bytes[got / 2] = static_cast<char>(bytes[got / 2] ^ 1);
      if (drop != from) {
        CHECK(send_all(ends[1 - from].get(), {bytes, static_cast<size_t>(got)}, soon()));
      }
    }
    return any;
  }

  std::pair<IoState, IoState> shake_hands() {
    IoState at_client = IoState::later, at_server = IoState::later;
    for (int round = 0; round < 20; ++round) {
      if (at_client == IoState::later) at_client = client.shake_hands();
      carry();
      if (at_server == IoState::later) at_server = server.shake_hands();
      carry();
    }
    return {at_client, at_server};
  }

  Stream client, server;
  Fd ends[2];
  std::string seen[2];  // from the client, from the server
  int damage = -1, drop = -1;
};

// Receives what is there.
std::string heard(Stream& stream, IoState& state) {
  std::string text;
  std::byte bytes[1000];
  size_t got = 0;
  while ((state = stream.recv(bytes, got)) == IoState::done) {
    text.append(reinterpret_cast<const char*>(bytes), got);
  }
  return text;
}

std::string noise(Rng& rng, size_t size) {
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  return text;
}

}  // namespace

TEST_CASE("a stream with TLS carries all bytes both ways, and the wire shows none of them") {
  const TlsKey key = key_of(kSecret, {.rekey_bytes = 300'000});
  auto [a, b] = socket_pair();
  Rng rng(1);
  const std::string question = noise(rng, 3 << 20), answer = noise(rng, 2 << 20);
  // Each end sends in one thread and receives in another.
  const auto talk = [](Stream& stream, std::string_view say, size_t expected) {
    std::thread sender([&stream, say]() mutable {
      Rng sizes(say.size());
      while (!say.empty()) {
        const std::string_view first = say.substr(0, sizes.below(100));
        const std::string_view second = say.substr(first.size(), 1 + sizes.below(400'000));
        size_t moved = 0;
        IoState state;
        while ((state = stream.send(first, second, moved)) == IoState::later) {
          wait_ready(stream.fd(), POLLOUT, soon());
          std::this_thread::yield();
        }
        if (state == IoState::closed) break;
        say.remove_prefix(moved);
      }
      CHECK(say.empty());
    });
    std::string got;
    std::vector<std::byte> bytes(200'000);
    Rng sizes(expected);
    while (got.size() < expected) {
      size_t heard = 0;
      const IoState state = stream.recv(std::span(bytes).first(1 + sizes.below(200'000)), heard);
      if (state == IoState::closed) break;
      if (state == IoState::later) wait_ready(stream.fd(), POLLIN, soon());
      got.append(reinterpret_cast<char*>(bytes.data()), heard);
    }
    sender.join();
    return got;
  };
  Stream client(std::move(a), key, TlsSide::client), server(std::move(b), key, TlsSide::server);
  std::string at_server;
  std::thread other([&] { at_server = talk(server, answer, question.size()); });
  client.shake_hands(soon());
  const std::string at_client = talk(client, question, answer.size());
  other.join();
  CHECK(at_client == answer);
  CHECK(at_server == question);

  Wire wire(key, key);
  CHECK(wire.shake_hands() == std::pair(IoState::done, IoState::done));
  size_t sent = 0;
  const std::string secret = "the gradients of everybody";
  REQUIRE(wire.client.send(secret, sent) == IoState::done);
  CHECK(sent == secret.size());
  while (wire.carry()) {
  }
  IoState state;
  CHECK(heard(wire.server, state) == secret);
  CHECK(state == IoState::later);
  CHECK(wire.seen[0].find(secret.substr(0, 8)) == std::string::npos);
  wire.client = Stream();
  wire.ends[1] = Fd();
  CHECK(heard(wire.server, state).empty());
  CHECK(state == IoState::closed);
  CHECK(wire.server.problem().empty());  // an end is no attack
}

TEST_CASE("a stream with TLS refuses who has another key, a certificate, or no TLS") {
  Wire other(key_of(kSecret), key_of("fedcba9876543210"));
  CHECK(other.shake_hands() == std::pair(IoState::closed, IoState::closed));
  CHECK(other.client.problem().starts_with("it has another key, or none"));
  CHECK(other.server.problem().starts_with("it has another key, or none"));
  size_t moved = 0;
  CHECK(other.client.send("text", moved) == IoState::closed);

  // Who is in between and does not have the key, but does have a certificate.
  auto [ours, theirs] = socket_pair();
  std::thread impostor([fd = theirs.get()] {
    SSL_CTX* context = SSL_CTX_new(TLS_server_method());
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    SSL* ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    CHECK(SSL_accept(ssl) != 1);
    ::shutdown(fd, SHUT_RDWR);
    SSL_free(ssl);
    X509_free(certificate);
    EVP_PKEY_free(key);
    SSL_CTX_free(context);
  });
  Stream client(std::move(ours), key_of(kSecret), TlsSide::client);
  CHECK_THROWS_AS(client.shake_hands(soon()), Error);
  impostor.join();

  auto [here, there] = socket_pair();
  Stream server(std::move(here), key_of(kSecret), TlsSide::server);
  REQUIRE(send_all(there.get(), "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n", soon()));
  IoState state;
  CHECK(heard(server, state).empty());
  CHECK(state == IoState::closed);

  CHECK_THROWS_AS(key_of("short"), Error);
  auto [silent, nobody] = socket_pair();
  Stream waiting(std::move(silent), key_of(kSecret), TlsSide::client);
  CHECK_THROWS_WITH_AS(waiting.shake_hands(Monotonic::now() + std::chrono::milliseconds(50)),
                       "no answer in time", Error);
}

TEST_CASE("a stream with TLS ends when what it carries is changed, left out or repeated") {
  const TlsKey key = key_of(kSecret);
  const std::string text(500, 'x');
  for (const char* how : {"damage", "drop", "repeat"}) {
    CAPTURE(how);
    Wire wire(key, key);
    REQUIRE(wire.shake_hands() == std::pair(IoState::done, IoState::done));
    wire.seen[0].clear();
    if (*how == 'd') (how[1] == 'a' ? wire.damage : wire.drop) = 0;
    size_t sent = 0;
    REQUIRE(wire.client.send(text, sent) == IoState::done);
    wire.carry();
    wire.damage = wire.drop = -1;
    IoState state;
    if (*how == 'r') {
      CHECK(heard(wire.server, state) == text);
      REQUIRE(send_all(wire.ends[1].get(), wire.seen[0], soon()));
    } else {
      REQUIRE(wire.client.send(text, sent) == IoState::done);
      wire.carry();
    }
    CHECK(heard(wire.server, state).empty());
    CHECK(state == IoState::closed);
    CHECK(wire.server.problem().starts_with("what arrives is not what it has sent"));
  }
}

TEST_CASE("a plain stream is the socket itself") {
  auto [a, b] = socket_pair();
  Stream one{std::move(a)};
  size_t moved = 0;
  CHECK(one.shake_hands() == IoState::done);
  CHECK(one.send("head ", "body", moved) == IoState::done);
  CHECK(moved == 9);
  char bytes[9];
  REQUIRE(recv_exactly(b.get(), std::as_writable_bytes(std::span(bytes))));
  CHECK(std::string_view(bytes, 9) == "head body");
  std::byte more[4];
  CHECK(one.recv(more, moved) == IoState::later);
  b.reset();
  CHECK(one.recv(more, moved) == IoState::closed);
  CHECK(one.send("into the void", moved) == IoState::closed);
  CHECK_FALSE(one.encrypted());
}
