#include "core/net/http_server.h"

#include <atomic>
#include <dirent.h>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <stdlib.h>
#include <sys/resource.h>
#include <thread>

#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/poll.h"
#include "core/net/http.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/net/certificate.h"
#include "tests/unit/net/http_peer.h"

namespace adaptdl {
namespace {

std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

HttpResponse ok(const std::string& body) {
  return {200, {{"X-Mine", "1"}}, body};
}

// Gives back what was asked.
void echo(const HttpServerRequest& request, const HttpReply& reply) {
  reply.send(ok(request.method + " " + request.path + "?" + request.query + " " + request.body));
}

// A server whose handler keeps the replies for the test.
struct Keeper {
  explicit Keeper(const HttpServerOptions& options = {})
      : server(options, [this](const HttpServerRequest& request, const HttpReply& reply) {
          if (request.path == "/hold") {
            reply.hold(Seconds(request.query.empty() ? 600 : 0.05), text_response(408, "late"),
                       [this] { ++overs; });
          }
          const std::lock_guard lock(mutex);
          replies.push_back(reply);
        }) {}

  HttpReply next() {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (!replies.empty()) {
          const HttpReply reply = replies.back();
          replies.pop_back();
          return reply;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void wait_for_overs(int count) const {
    while (overs < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::atomic<int> overs = 0;
  std::mutex mutex;
  std::vector<HttpReply> replies;
  HttpServer server;
};

}  // namespace

TEST_CASE("a connection serves one request after the other") {
  HttpServer server({}, echo);
  CHECK(server.port() != 0);
  HttpPeer peer(server.port());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(peer.send(get(fmt::format("/a/{}?b=c", i))));
    const auto answer = peer.receive().value();
    CHECK(answer.status == 200);
    CHECK(answer.body == fmt::format("GET /a/{}?b=c ", i));
    CHECK(answer.head.starts_with("HTTP/1.1 200 OK\r\nX-Mine: 1\r\nDate: "));
    CHECK(contains(answer.head, " GMT\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\n"));
  }
  peer.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(contains(peer.receive(false)->head, "Content-Length: 9\r\n"));
  peer.send(get("/1") + get("/2") + "PUT /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(peer.receive()->body == "GET /1? ");
  CHECK(peer.receive()->body == "GET /2? ");
  CHECK(peer.receive()->body == "PUT /3? abc");
  peer.send(get("/end", "Connection: close\r\n"));
  CHECK(contains(peer.receive()->head, "Connection: close\r\n"));
  CHECK(peer.closes());
}

TEST_CASE("a client that waits for 100 Continue is told to go on, or refused") {
  HttpServer server({.max_body = 10}, echo);
  const std::string head = "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ";
  HttpPeer peer(server.port());
  peer.send(head + "3\r\n\r\n");
  CHECK(peer.receive()->head == "HTTP/1.1 100 Continue\r\n\r\n");
  peer.send("abc");
  CHECK(peer.receive()->body == "PUT /? abc");
  peer.send(head + "11\r\n\r\n");
  CHECK(peer.receive()->status == 413);
  CHECK(peer.closes());
}

TEST_CASE("a refusal reaches a client that is still sending") {
  HttpServer server({}, echo);
  HttpPeer peer(server.port());
  peer.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
  for (int i = 0; i < 100; ++i) peer.send(std::string(10'000, 'x'));
  const auto answer = peer.receive();
  REQUIRE(answer);
  CHECK(answer->status == 413);
  CHECK(answer->body == "The request's body is longer than 1048576 bytes.\n");
}

TEST_CASE("a handler that fails, forgets or answers nonsense is a 500") {
  set_log_level(LogLevel::error);
  HttpServer server({}, [](const HttpServerRequest& request, const HttpReply& reply) {
    if (request.path == "/error") fail("the disk is full: make room");
    if (request.path == "/defect") throw std::out_of_range("secret");
    if (request.path == "/line") reply.send({200, {{"A", "b\r\nC: d"}}, ""});
    if (request.path == "/status") reply.send({42, {}, ""});
    if (request.path == "/empty") reply.send({204, {{"content-length", "7"}}, ""});
  });
  HttpPeer peer(server.port());
  const auto ask = [&](const std::string& path) {
    peer.send(get(path));
    return peer.receive().value();
  };
  CHECK(ask("/error").status == 500);
  CHECK(ask("/error").body == "the disk is full: make room\n");
  CHECK(ask("/defect").status == 500);
  CHECK_FALSE(contains(ask("/defect").body, "secret"));
  CHECK(ask("/line").status == 500);
  CHECK_FALSE(contains(ask("/line").head, "C: d"));
  CHECK(ask("/status").status == 500);
  CHECK(ask("/forgotten").body == "The server did not answer this request.\n");
  CHECK_FALSE(contains(ask("/empty").head, "ontent-"));
  set_log_level(LogLevel::info);
}

TEST_CASE("answers may come later, from another thread, and the first one counts") {
  Keeper keeper;
  HttpPeer peer(keeper.server.port());
  for (int i = 0; i < 20; ++i) {
    peer.send(get(i % 2 == 0 ? "/hold" : "/keep"));
    const HttpReply reply = keeper.next();
    std::thread([&] {
      reply.send(ok("first"));
      reply.send(ok("second"));
    }).join();
    CHECK(peer.receive()->body == "first");
  }
  CHECK(keeper.overs == 0);
}

TEST_CASE("nothing is over when another thread answers before the handler has returned") {
  std::atomic<int> overs = 0;
  HttpServer server({}, [&overs](const HttpServerRequest&, const HttpReply& reply) {
    reply.hold(Seconds(600), text_response(408, "late"), [&overs] { ++overs; });
    std::thread([&reply] { reply.send(ok("first")); }).join();
  });
  HttpPeer peer(server.port());
  for (int i = 0; i < 2; ++i) {  // the second is handled after all of the first
    peer.send(get("/"));
    CHECK(peer.receive()->body == "first");
  }
  CHECK(overs == 0);
}

TEST_CASE("a held request is answered at its deadline") {
  Keeper keeper;
  HttpPeer peer(keeper.server.port());
  peer.send(get("/hold?short"));
  const auto answer = peer.receive();
  CHECK(answer->status == 408);
  CHECK(answer->body == "late\n");
  keeper.wait_for_overs(1);
  keeper.next().send(ok("too late"));
  peer.send(get("/keep"));
  keeper.next().send(ok("in time"));
  CHECK(peer.receive()->body == "in time");
  CHECK(keeper.overs == 1);
}

TEST_CASE("a held request ends when its client goes away") {
  Keeper keeper;
  for (int i = 0; i < 5; ++i) {
    HttpPeer peer(keeper.server.port());
    peer.send(get("/hold"));
    const HttpReply reply = keeper.next();
    peer.close();
    keeper.wait_for_overs(i + 1);
    std::promise<void> over;  // who holds too late is told at once
    reply.hold(Seconds(600), text_response(408, ""), [&] { over.set_value(); });
    over.get_future().wait();
    reply.send(ok("to nobody"));
  }
  CHECK(keeper.overs == 5);
}

TEST_CASE("slow and idle clients are let go") {
  // The slow one must not be taken for an idle one before it has said something.
  HttpServer server({.idle_timeout = Seconds(2), .read_timeout = Seconds(0.1)}, echo);
  HttpPeer idle(server.port()), slow(server.port());
  slow.send("GET /");
  CHECK(idle.closes());
  CHECK(slow.receive()->status == 408);
  CHECK(slow.closes());

  HttpServer large({.write_timeout = Seconds(0.1)},
                   [](const HttpServerRequest&, const HttpReply& reply) {
                     reply.send(ok(std::string(48 << 20, 'x')));  // more than the kernel takes
                   });
  HttpPeer deaf(large.port());
  deaf.send(get("/"));
  CHECK(wait_ready(deaf.fd(), POLLRDHUP, Monotonic::now() + std::chrono::seconds(20)));
}

TEST_CASE("connections beyond the limit wait while the others have requests") {
  Keeper keeper({.max_connections = 2});
  HttpPeer first(keeper.server.port()), second(keeper.server.port());
  first.send(get("/hold"));
  const HttpReply reply = keeper.next();
  second.send(get("/hold"));
  keeper.next();
  HttpPeer third(keeper.server.port());
  third.send(get("/keep"));
  CHECK_FALSE(third.receive(true, Seconds(0.1)));
  reply.send(ok("first"));  // from now on the first one is silent
  CHECK(first.receive()->body == "first");
  CHECK(first.closes());
  keeper.next().send(ok("third"));
  CHECK(third.receive()->body == "third");
}

TEST_CASE("a new client displaces the one that has been silent for longest") {
  Keeper keeper({.max_connections = 3});
  HttpPeer held(keeper.server.port());
  held.send(get("/hold"));
  const HttpReply reply = keeper.next();
  HttpPeer slow(keeper.server.port());
  slow.send("GET /slow HTTP/1.1\r\n");
  HttpPeer silent(keeper.server.port());
  std::vector<HttpPeer> others;
  for (HttpPeer* next : {&slow, &silent}) {  // the first bytes of a request do not count
    HttpPeer& other = others.emplace_back(keeper.server.port());
    other.send(get("/keep"));
    keeper.next().send(ok("other"));
    CHECK(other.receive()->body == "other");
    CHECK(next->closes());
  }
  reply.send(ok("held"));
  CHECK(held.receive()->body == "held");

  // However many come, who has a request is served.
  std::vector<HttpPeer> strangers;
  for (int i = 0; i < 20; ++i) strangers.emplace_back(keeper.server.port());
  for (HttpPeer& stranger : strangers) stranger.send("PUT / HTTP/1.1\r\nContent-Le");
  HttpPeer client(keeper.server.port());
  client.send(get("/keep"));
  keeper.next().send(ok("served"));
  CHECK(client.receive()->body == "served");
}

TEST_CASE("without a free descriptor the longest silent client is displaced, too") {
  set_log_level(LogLevel::error);
  HttpServer server({}, echo);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  HttpPeer first(server.port());
  first.send(get("/"));
  CHECK(first.receive());
  rlimit limit = before;
  limit.rlim_cur = 200;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  std::vector<Fd> used;
  do used.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  while (used.back());
  used.pop_back();
  REQUIRE(used.size() > 1);
  used.pop_back();  // for the peer's own end
  HttpPeer second(server.port());
  const bool sent = second.connected() && second.send(get("/second"));
  const auto answer = sent ? second.receive() : std::nullopt;
  setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(answer);
  CHECK(answer->body == "GET /second? ");
  CHECK(first.closes());
  set_log_level(LogLevel::info);
}

TEST_CASE("a body is read only if its head is admitted") {
  set_log_level(LogLevel::error);
  std::atomic<int> handled = 0;
  const HttpAdmission admit = [](const HttpServerRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/error") fail("the disk is full");
    CHECK(head.client == "127.0.0.1");
    if (head.query == "token" && head.header("x-a") == "b") return std::nullopt;
    return text_response(403, "not you");
  };
  HttpServer server({.admit = admit},
                    [&](const HttpServerRequest& request, const HttpReply& reply) {
                      ++handled;
                      echo(request, reply);
                    });
  const auto put = [](const std::string& target, const std::string& headers = "") {
    return "PUT " + target + " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n" + headers + "\r\n";
  };
  HttpPeer peer(server.port());
  peer.send(put("/a?token", "X-A: b\r\n") + "abc");
  CHECK(peer.receive()->body == "PUT /a?token abc");
  peer.send(get("/"));  // without a body it is not asked
  CHECK(peer.receive()->status == 200);
  peer.send(put("/a"));
  CHECK(peer.receive()->body == "not you\n");
  CHECK(peer.closes());
  HttpPeer waits(server.port());
  waits.send(put("/a", "Expect: 100-continue\r\n"));
  CHECK(waits.receive()->status == 403);
  HttpPeer unlucky(server.port());
  unlucky.send(put("/error"));
  CHECK(unlucky.receive()->status == 500);
  CHECK(handled == 2);
  set_log_level(LogLevel::info);
}

TEST_CASE("tasks come after their delay, or never once the server stops") {
  std::promise<void> called;
  HttpServer server({}, echo);
  const TimePoint start = Monotonic::now();
  std::atomic<bool> late = false;
  server.post_after(Seconds(600), [&] { late = true; });
  server.post_after(Seconds(0.05), [&] { called.set_value(); });
  called.get_future().wait();
  CHECK(seconds_since(start) >= 0.05);
  server.stop(Seconds(600));
  CHECK(seconds_since(start) < 300);
  CHECK_FALSE(late);
}

TEST_CASE("stop answers what it can and closes the rest") {
  auto keeper = std::make_unique<Keeper>();
  const uint16_t port = keeper->server.port();
  HttpPeer held(port), working(port), idle(port), stuck(port);
  held.send(get("/hold"));
  const HttpReply held_reply = keeper->next();
  working.send(get("/keep"));
  const HttpReply reply = keeper->next();
  stuck.send(get("/keep"));
  const HttpReply stuck_reply = keeper->next();
  idle.send("");
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    reply.send(ok("done"));
  });
  keeper->server.stop(Seconds(4));
  late.join();
  const auto answer = held.receive();
  CHECK(answer->status == 408);
  CHECK(contains(answer->head, "Connection: close\r\n"));
  CHECK(held.closes());
  CHECK(keeper->overs == 1);
  CHECK(working.receive()->body == "done");
  CHECK(idle.closes());
  CHECK(stuck.closes());
  CHECK_FALSE(HttpPeer(port).connected());
  bool ran = false;
  keeper->server.post([&ran, reply] { ran = true; });
  keeper->server.stop(Seconds(1));
  keeper.reset();
  CHECK_FALSE(ran);
  stuck_reply.send(ok("the server has gone"));
  reply.hold(Seconds(1), ok(""), [&] { ran = true; });
  CHECK_FALSE(ran);

  // The port is free at once for the next one.
  const HttpServer next({.port = port}, echo);
  CHECK(next.port() == port);
}

TEST_CASE("what is posted and fails does not end the server") {
  set_log_level(LogLevel::error);
  HttpServer server({}, echo);
  server.post([] { fail("this is expected in this test"); });
  HttpPeer peer(server.port());
  peer.send(get("/"));
  CHECK(peer.receive()->status == 200);
  set_log_level(LogLevel::info);
}

TEST_CASE("where it cannot listen is an Error that says so") {
  HttpServer server({}, echo);
  CHECK_ERROR(HttpServer({.port = server.port()}, echo),
              fmt::format("127.0.0.1:{}: another program listens there", server.port()));
  CHECK_ERROR(HttpServer({.address = "localhost"}, echo), "localhost:0: not a numeric address");
  CHECK_ERROR(HttpServer({.address = "192.0.2.1"}, echo), "192.0.2.1:0: cannot listen: ");
  const Certificate a = make_certificate(), b = make_certificate();
  CHECK_ERROR(HttpServer({.tls = HttpTls{"no PEM", a.key}}, echo),
              "the certificate is not valid PEM");
  CHECK_ERROR(HttpServer({.tls = HttpTls{a.certificate, "no PEM"}}, echo),
              "the key is not a PEM key");
  CHECK_ERROR(HttpServer({.tls = HttpTls{a.certificate, b.key}}, echo),
              "does not match the certificate");
}

TEST_CASE("on all addresses, of IPv4 and of IPv6 where there is one") {
  HttpServer server({.address = "*"}, [](const HttpServerRequest& request, const HttpReply& reply) {
    reply.send(ok(request.client));
  });
  const auto ask = [&](const char* host) {
    return HttpClient().send({.url = fmt::format("http://{}:{}/", host, server.port())}).body;
  };
  CHECK(ask("127.0.0.1") == "127.0.0.1");  // not ::ffff:127.0.0.1
  bool has_ipv6 = true;
  try {
    HttpServer({.address = "::1"}, echo);
  } catch (const Error&) {
    has_ipv6 = false;
  }
  if (has_ipv6) CHECK(ask("[::1]") == "::1");
  for (const char* other : {"*", "0.0.0.0"}) {
    CHECK_ERROR(HttpServer({.address = other, .port = server.port()}, echo),
                fmt::format("{}:{}: another program listens there", other, server.port()));
  }
}

TEST_CASE("no descriptor is left to child processes") {
  Keeper keeper;
  HttpPeer peer(keeper.server.port());
  peer.send(get("/hold"));
  const HttpReply reply = keeper.next();
  int sockets = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const auto fd = try_parse<int>(entry->d_name);
    if (!fd || *fd <= 2 || *fd == dirfd(folder)) continue;
    const std::string link = fmt::format("/proc/self/fd/{}", *fd);
    char target[256] = {};
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
    const std::string kind = target;
    if (!kind.starts_with("socket:") && !kind.starts_with("anon_inode:")) continue;
    CAPTURE(kind);
    const bool from_outside = kind.starts_with("socket:") && *fd < 3;
    CHECK((from_outside || (fcntl(*fd, F_GETFD) & FD_CLOEXEC) != 0));
    ++sockets;
  }
  closedir(folder);
  CHECK(sockets >= 5);  // listener, both ends of the connection, and what Asio waits with
}

TEST_CASE("TLS with clients that must show a certificate") {
  const Certificate own = make_certificate(), known = make_certificate(),
                    stranger = make_certificate();
  HttpServer server({.tls = HttpTls{own.certificate, own.key, known.certificate}}, echo);
  const std::string url = fmt::format("https://localhost:{}/a", server.port());
  const auto ask = [&](const std::string& certificate, const std::string& key) {
    return HttpClient({.authorities = own.certificate, .certificate = certificate, .key = key})
        .send({.url = url})
        .body;
  };
  CHECK(ask(known.certificate, known.key) == "GET /a? ");
  CHECK_THROWS_AS(ask("", ""), HttpError);
  CHECK_THROWS_AS(ask(stranger.certificate, stranger.key), HttpError);
  // A file that has become empty does not admit everybody.
  for (const char* none : {"no PEM", "", "\n"}) {
    const HttpTls unusable{own.certificate, own.key, none};
    CHECK_ERROR(HttpServer({.tls = unusable}, echo), "the clients' authorities are not valid PEM");
    CHECK_ERROR(server.set_tls(unusable), "the clients' authorities are not valid PEM");
  }
  CHECK(ask(known.certificate, known.key) == "GET /a? ");
  CHECK_THROWS_AS(ask("", ""), HttpError);
}

TEST_CASE("TLS with clients that must show a certificate, and resume their sessions") {
  const Certificate own = make_certificate(), known = make_certificate();
  HttpServer server({.tls = HttpTls{own.certificate, own.key, known.certificate}}, echo);
  HttpClient client(
      {.authorities = own.certificate, .certificate = known.certificate, .key = known.key});
  for (int i = 0; i < 3; ++i) {
    CHECK(client
              .send({.url = fmt::format("https://localhost:{}/a", server.port()),
                     .headers = {{"Connection", "close"}}})
              .body == "GET /a? ");
  }
}

TEST_CASE("TLS, and another certificate while it runs") {
  const TemporaryDirectory folder;
  const auto trust = [&](const Certificate& certificate) {
    write_file_atomic(folder.file("ca.pem"), certificate.certificate);
    setenv("SSL_CERT_FILE", folder.file("ca.pem").c_str(), 1);
  };
  const Certificate first = make_certificate(), second = make_certificate();
  trust(first);
  HttpServer server({.tls = HttpTls{first.certificate, first.key}}, echo);
  const std::string url = fmt::format("https://localhost:{}/a", server.port());
  HttpClient old;
  CHECK(old.send({.url = url}).body == "GET /a? ");
  const std::string large(200'000, 'x');
  CHECK(old.send({.method = "PUT", .url = url, .body = large}).body == "PUT /a? " + large);
  HttpPeer plain(server.port());
  plain.send(get("/"));
  const auto told = plain.receive(true, Seconds(5));
  CHECK_FALSE(told);

  CHECK_ERROR(server.set_tls({second.certificate, first.key}), "does not match the certificate");
  server.set_tls({second.certificate, second.key});
  CHECK_ERROR(HttpClient().send({.url = url}), "certificate");
  CHECK(old.send({.url = url}).ok());  // on the connection that it has
  trust(second);
  CHECK(HttpClient().send({.url = url}).ok());
  unsetenv("SSL_CERT_FILE");
}

}  // namespace adaptdl
