#include "core/net/http.h"

#include <chrono>
#include <fcntl.h>
#include <stdlib.h>
#include <thread>

#include "core/base/files.h"
#include "core/base/system.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/net/certificate.h"
#include "tests/unit/net/loopback_server.h"

namespace adaptdl {

namespace {

std::string response(const std::string& status, const std::string& headers,
                     const std::string& body) {
  return fmt::format("HTTP/1.1 {}\r\n{}Content-Length: {}\r\n\r\n{}", status, headers, body.size(),
                     body);
}

// Answers by path; /echo gives the request back.
std::string answer(const std::string& request) {
  const auto is = [&](const std::string& path) { return contains(request, " " + path + " HTTP"); };
  if (request.starts_with("HEAD")) return "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n";
  if (is("/echo")) return response("200 OK", "X-Two:  a b \r\nConnection: keep-alive\r\n", request);
  if (is("/large")) return response("200 OK", "", std::string(100'000, 'x'));
  if (is("/moved")) return response("302 Found", "Location: /echo\r\nX-Old: 1\r\n", "moved");
  if (is("/loop")) return response("302 Found", "Location: /loop\r\n", "");
  if (is("/short")) return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
  if (is("/headers")) return "HTTP/1.1 200 OK\r\n" + std::string(2 << 20, 'h') + ": 1\r\n\r\n";
  if (is("/slow")) return "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n";  // and no end
  return response("404 Not Found", "", "none");
}

}  // namespace

TEST_CASE("requests carry method, headers and body; answers status, headers and body") {
  LoopbackServer server(answer);
  HttpClient client;
  HttpResponse got = client.send({.url = server.url("/echo?q=1")});
  CHECK(got.status == 404);  // the path is another
  got = client.send({.method = "PATCH",
                     .url = server.url("/echo"),
                     .headers = {{"X-Mine", "1"}, {"X-Empty", ""}},
                     .body = "{\"a\":1}"});
  CHECK(got.ok());
  CHECK(got.header("x-two") == "a b");
  CHECK_FALSE(got.header("none"));
  CHECK(got.body.starts_with("PATCH /echo HTTP/1.1\r\n"));
  CHECK(contains(got.body, "X-Mine: 1\r\n"));
  CHECK(contains(got.body, "X-Empty:\r\n"));
  CHECK_FALSE(contains(got.body, "Expect"));
  CHECK(got.body.ends_with("\r\n\r\n{\"a\":1}"));
  CHECK(client.send({.method = "DELETE", .url = server.url("/echo")}).body.starts_with("DELETE "));
  CHECK(client.send({.method = "POST", .url = server.url("/echo")}).body.starts_with("POST "));
  got = client.send({.method = "HEAD", .url = server.url("/echo")});
  CHECK(got.ok());
  CHECK(got.body.empty());
  got = client.send({.url = server.url("/none")});
  CHECK(got.status == 404);
  CHECK(got.body == "none");
}

TEST_CASE("connections are kept") {
  LoopbackServer server(answer);
  HttpClient client;
  for (int i = 0; i < 5; ++i) CHECK(client.send({.url = server.url("/echo")}).ok());
  CHECK(server.connections() == 1);
}

TEST_CASE("redirects are followed only where asked") {
  LoopbackServer server(answer);
  HttpClient client;
  CHECK(client.send({.url = server.url("/moved")}).status == 302);
  const HttpResponse got = client.send({.url = server.url("/moved"), .max_redirects = 3});
  CHECK(got.status == 200);
  CHECK_FALSE(got.header("x-old"));  // of the last answer alone
  CHECK_ERROR(client.send({.url = server.url("/loop"), .max_redirects = 3}), "redirects");
}

TEST_CASE("what goes wrong is an Error that hides secrets") {
  LoopbackServer server(answer);
  HttpClient client;
  CHECK_ERROR(client.send({.url = server.url("/large"), .max_body = 99'999}),
              "larger than 99999 bytes");
  CHECK(client.send({.url = server.url("/large"), .max_body = 100'000}).ok());
  CHECK_ERROR(client.send({.url = server.url("/headers")}), "127.0.0.1");
  CHECK_ERROR(client.send({.url = server.url("/short")}), "GET http://127.0.0.1:");
  const auto start = Monotonic::now();
  CHECK_ERROR(client.send({.url = server.url("/slow"), .timeout = Seconds(0.1)}), "timed out");
  CHECK(seconds_since(start) < 20.0);  // 30 is usual
  CHECK_ERROR(client.send({.url = "file:///etc/passwd"}), "file");
  CHECK_ERROR(client.send({.url = server.url("/echo"), .headers = {{"A", "b\r\nC: d"}}}),
              "line break");
  const std::string secret =
      error_of([&] { client.send({.url = "http://me:pass@127.0.0.1:1/x?token=abc#d"}); });
  CHECK(contains(secret, "GET http://127.0.0.1:1/x: "));
  CHECK_FALSE(contains(secret, "pass"));
  CHECK_FALSE(contains(secret, "abc"));
}

TEST_CASE("TLS: only a trusted certificate of the right name") {
  LoopbackServer server(answer, true);
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("ca.pem"), server.certificate());
  setenv("SSL_CERT_FILE", folder.file("ca.pem").c_str(), 1);
  // A client each: the server talks to one at a time.
  CHECK(HttpClient().send({.url = server.url("/echo")}).ok());
  std::string other_name = server.url("/echo");
  other_name.replace(other_name.find("localhost"), 9, "127.0.0.1");
  CHECK_ERROR(HttpClient().send({.url = other_name}), "certificate is not trusted");

  const LoopbackServer stranger(answer, true);
  write_file_atomic(folder.file("ca.pem"), stranger.certificate());
  CHECK_ERROR(HttpClient().send({.url = server.url("/echo")}), "certificate is not trusted");
  setenv("SSL_CERT_FILE", folder.file("none").c_str(), 1);
  CHECK_ERROR(HttpClient().send({.url = server.url("/echo")}), "none: not found");
  unsetenv("SSL_CERT_FILE");
}

TEST_CASE("TLS: authorities, names, certificates and proxies of a client's own") {
  LoopbackServer server(answer, true);
  const HttpClientOptions trusting{.authorities = server.certificate()};
  const HttpRequest request{.url = server.url("/echo")};
  CHECK(HttpClient(trusting).send(request).ok());
  CHECK(server.certified() == 0);
  CHECK_ERROR(HttpClient({.authorities = make_certificate().certificate}).send(request),
              "it does not match the CA certificates configured for this server");
  CHECK_ERROR(HttpClient({.authorities = "none"}).send(request), "GET https://localhost");
  CHECK(HttpClient({.verify = false}).send(request).ok());

  // Another name: asked for and checked, while connection and header Host stay the URL's.
  HttpRequest by_address = request;
  by_address.url.replace(by_address.url.find("localhost"), 9, "127.0.0.1");
  HttpClientOptions named = trusting;
  CHECK_ERROR(HttpClient(named).send(by_address), "not trusted");
  named.server_name = "localhost";
  CHECK(contains(HttpClient(named).send(by_address).body, "Host: 127.0.0.1:"));
  named.server_name = "elsewhere";
  CHECK_ERROR(HttpClient(named).send(request), "not trusted");

  HttpClientOptions certified = trusting;
  const Certificate mine = make_certificate();
  certified.certificate = mine.certificate;
  certified.key = mine.key;
  CHECK(HttpClient(certified).send(request).ok());
  CHECK(server.certified() == 1);
  certified.key = make_certificate().key;
  CHECK_ERROR(HttpClient(certified).send(request), "GET https://localhost");

  LoopbackServer proxy([](const std::string& asked) { return response("200 OK", "", asked); });
  HttpClient over_proxy({.proxy = proxy.url("")});
  // What the environment says of its own proxies is not about this one.
  const auto before = environment_variable("no_proxy");
  for (const char* exempt : {"", "*"}) {
    setenv("no_proxy", exempt, 1);
    CHECK(contains(over_proxy.send({.url = "http://nowhere.invalid/x"}).body,
                   "GET http://nowhere.invalid/x HTTP/1.1"));
  }
  before ? setenv("no_proxy", before->c_str(), 1) : unsetenv("no_proxy");
}

TEST_CASE("the environment's proxies are not asked for this machine") {
  LoopbackServer plain(answer);
  LoopbackServer secure(answer, true);
  const std::vector<const char*> names = {"http_proxy", "https_proxy", "no_proxy", "NO_PROXY"};
  std::vector<std::optional<std::string>> before;
  for (const char* name : names) before.push_back(environment_variable(name, true));
  setenv("http_proxy", "http://127.0.0.1:1", 1);  // where nothing listens
  setenv("https_proxy", "http://127.0.0.1:1", 1);
  unsetenv("no_proxy");
  unsetenv("NO_PROXY");
  const auto url_at = [&](const std::string& host) {
    std::string url = plain.url("/echo");
    return url.replace(url.find("127.0.0.1"), 9, host);
  };
  CHECK(HttpClient().send({.url = plain.url("/echo")}).ok());
  CHECK(HttpClient().send({.url = url_at("localhost")}).ok());
  CHECK(HttpClient({.verify = false}).send({.url = secure.url("/echo")}).ok());
  // By the host that is connected to, not by the name that it is to have.
  CHECK(HttpClient({.server_name = "elsewhere", .verify = false})
            .send({.url = secure.url("/echo")})
            .ok());
  // Another address, which is this machine, too: the proxy is for that, unless NO_PROXY exempts it.
  const std::string other = url_at("0.0.0.0");
  CHECK_ERROR(HttpClient().send({.url = other}), "127.0.0.1 port 1");
  setenv("no_proxy", "elsewhere,0.0.0.0", 1);
  CHECK(HttpClient().send({.url = other}).ok());
  setenv("no_proxy", "*", 1);
  CHECK(HttpClient().send({.url = other}).ok());
  for (size_t i = 0; i < names.size(); ++i) {
    before[i] ? setenv(names[i], before[i]->c_str(), 1) : unsetenv(names[i]);
  }
}

TEST_CASE("answers come piece by piece where asked") {
  LoopbackServer server(answer);
  HttpClient client;
  std::string got;
  HttpRequest request{.url = server.url("/large"),
                      .max_body = 10,
                      .on_body = [&](std::string_view piece) { got += piece; }};
  CHECK(client.send(request).body.empty());
  CHECK(got == std::string(100'000, 'x'));
  request.url = server.url("/none");
  CHECK(client.send(request).body == "none");  // what is no success is kept
  CHECK(got.size() == 100'000);
  request.url = server.url("/large");
  request.on_body = [](std::string_view) { fail("enough"); };
  CHECK_ERROR(client.send(request), "enough");
}

TEST_CASE("a request ends when it is cancelled, before and while it waits") {
  LoopbackServer server(answer);
  HttpClient client;
  Cancellation cancel;
  const HttpRequest request{.url = server.url("/slow"), .timeout = Seconds(60), .cancel = &cancel};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancel.cancel();
  });
  const auto start = Monotonic::now();
  CHECK_THROWS_AS(client.send(request), Cancelled);
  CHECK(seconds_since(start) < 20);
  other.join();
  CHECK_THROWS_AS(client.send(request), Cancelled);
  CHECK(cancel.cancelled());
  CHECK(cancel.wait_for(Seconds(60)));
  CHECK_FALSE(Cancellation().wait_for(Seconds(0.01)));
}

TEST_CASE("an Error says whether the server may have got the request") {
  const auto arrived = [](const std::string& url) {
    try {
      HttpClient().send({.method = "POST", .url = url, .timeout = Seconds(2)});
    } catch (const HttpError& error) {
      return error.may_have_arrived();
    }
    FAIL("no HttpError");
    return false;
  };
  LoopbackServer server(answer);
  CHECK(arrived(server.url("/slow")));
  CHECK(arrived(server.url("/short")));
  CHECK_FALSE(arrived("http://127.0.0.1:1/"));
}

TEST_CASE("a request to be sent only once takes no connection that was kept") {
  LoopbackServer server(answer);
  HttpClient client;
  HttpRequest request{.method = "POST", .url = server.url("/echo")};
  CHECK(client.send(request).ok());
  CHECK(client.send(request).ok());
  CHECK(server.connections() == 1);
  // The server talks to one client at a time: another connection is not answered.
  request.only_once = true;
  request.timeout = Seconds(0.2);
  CHECK_ERROR(client.send(request), "timed out");
}

TEST_CASE("certificates are looked for where systems keep them") {
  const TemporaryDirectory root;
  CHECK_ERROR(find_ca_certificates(root.path()), "install the package ca-certificates");
  make_directories(root.file("etc/ssl"));
  write_file_atomic(root.file("etc/ssl/cert.pem"), "");
  CHECK(find_ca_certificates(root.path()) == root.file("etc/ssl/cert.pem"));
}

TEST_CASE("a part of a file is sent as a body; one that ends too soon ends the request") {
  LoopbackServer server(answer);
  HttpClient client;
  TemporaryDirectory folder;
  replace_file(folder.file("body"), "0123456789" + std::string(100'000, 'x'));
  const Fd file = open_file(folder.file("body"), O_RDONLY);
  uint64_t sent = 0;
  HttpRequest request{.method = "PUT", .url = server.url("/echo")};
  request.body_file = {file.get(), 2, 50'000};
  request.on_sent = [&](uint64_t bytes) { sent = bytes; };
  const HttpResponse got = client.send(request);
  CHECK(got.body.starts_with("PUT /echo HTTP/1.1\r\n"));
  CHECK(contains(got.body, "Content-Length: 50000\r\n"));
  CHECK(got.body.ends_with("\r\n\r\n23456789" + std::string(49'992, 'x')));
  CHECK(sent == 50'000);
  request.body_file.size = 200'000;
  CHECK_ERROR(client.send(request), "the uploaded file");
}

TEST_CASE("a request in which nothing moves ends, however long it may take in all") {
  LoopbackServer server(answer);
  HttpClient client;
  HttpRequest request{.url = server.url("/slow")};
  request.timeout = Seconds(0);
  request.stall_timeout = Seconds(1);
  CHECK_ERROR(client.send(request), "/slow: ");
}

}  // namespace adaptdl
